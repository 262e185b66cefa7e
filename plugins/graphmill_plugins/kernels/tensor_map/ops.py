"""Tensor map kernels: immutable maps from tensors to tensors.

Semantics: tensorflow/core/kernels/map_kernels.cc and map_kernels.h. The order of stacked keys,
which TensorFlow leaves to its hash table, is the order of their insertion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill.spi.kernels import shape_of_value
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.tensor_map._tensor_map import Entry, TensorMap, key_of
from graphmill_plugins.kernels.unstack import stacked

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value


def _map_of(handle: Any) -> TensorMap:
    """Return the map that a variant holds.

    Raises:
        InvalidArgumentError: the variant is not a scalar, or does not hold a map.
    """
    shape = shape_of_value(handle, dtypes.variant)
    if shape != ():
        raise InvalidArgumentError(f"Input map must be a scalar. Saw: {shape_text(shape)}")
    value = handle.item() if isinstance(handle, np.ndarray) else handle
    if not isinstance(value, TensorMap):
        raise InvalidArgumentError(f"Input handle is not a map. Saw: {value!r}")
    return value


def _fail_without_key(what: str, key: Value) -> NoReturn:
    raise InvalidArgumentError(f'{what}. Could not find key "{key}".')


@kernel("EmptyTensorMap", host=True)
def empty_tensor_map() -> Value:
    """Return an empty map."""
    return TensorMap()


@kernel("TensorMapSize", host=True)
def tensor_map_size(input_handle: Value) -> Value:
    """Return the number of keys."""
    return np.int32(len(_map_of(input_handle).entries))


@kernel("TensorMapHasKey", host=True)
def tensor_map_has_key(input_handle: Value, key: Value, key_dtype: np.dtype[Any]) -> Value:
    """Return whether the map has a key of this type, shape and content."""
    return np.bool_(key_of(key, dtypes.as_dtype(key_dtype)) in _map_of(input_handle).entries)


@kernel("TensorMapInsert", host=True)
def tensor_map_insert(
    input_handle: Value,
    key: Value,
    value: Value,
    key_dtype: np.dtype[Any],
    value_dtype: np.dtype[Any],
) -> Value:
    """Return the map with a key added, or with another value for it."""
    source = _map_of(input_handle)
    entry = Entry(key, value, dtypes.as_dtype(value_dtype))
    return source.inserted(key_of(key, dtypes.as_dtype(key_dtype)), entry)


@kernel("TensorMapLookup", host=True)
def tensor_map_lookup(
    input_handle: Value, key: Value, key_dtype: np.dtype[Any], value_dtype: np.dtype[Any]
) -> Value:
    """Return the value of a key."""
    entry = _map_of(input_handle).entries.get(key_of(key, dtypes.as_dtype(key_dtype)))
    if entry is None:
        _fail_without_key("Trying to lookup non-existent key", key)
    expected = dtypes.as_dtype(value_dtype)
    if entry.value_dtype is not expected:
        raise InvalidArgumentError(
            f"Type mismatch: actual {entry.value_dtype.tf_name} vs. expect {expected.tf_name}"
        )
    return entry.value


@kernel("TensorMapErase", host=True)
def tensor_map_erase(
    input_handle: Value, key: Value, key_dtype: np.dtype[Any], value_dtype: np.dtype[Any]
) -> Value:
    """Return the map without a key."""
    del value_dtype
    source = _map_of(input_handle)
    identity = key_of(key, dtypes.as_dtype(key_dtype))
    if identity not in source.entries:
        _fail_without_key("Trying to erase non-existent item", key)
    return source.erased(identity)


@kernel("TensorMapStackKeys", host=True)
def tensor_map_stack_keys(
    xp: ArrayNamespace, input_handle: Value, key_dtype: np.dtype[Any]
) -> Value:
    """Return all keys as the rows of a tensor."""
    entries = _map_of(input_handle).entries
    if not entries:
        raise InvalidArgumentError("TensorMapStackKeys cannot be called on empty map.")
    dtype = dtypes.as_dtype(key_dtype)
    if any(key.dtype != dtype.name for key in entries):
        raise InvalidArgumentError("Key does not match requested dtype.")
    first = next(iter(entries)).shape
    if any(key.shape != first for key in entries):
        raise InvalidArgumentError("Keys must all have the same shape.")
    return stacked(xp, [entry.key for entry in entries.values()], first, dtype)
