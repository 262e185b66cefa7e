"""`TensorMap`: an immutable map from tensors to tensors in a variant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels._variant import addable, mapped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.dtypes import DType
    from graphmill.spi import ArrayNamespace, Value


class Key(NamedTuple):
    """The identity of a key tensor: element type, shape and content.

    The content of numbers is their bytes, so 0.0 and -0.0 differ and equal NaN patterns do not.
    """

    dtype: str
    shape: tuple[int, ...]
    content: bytes | tuple[Any, ...]


class Entry(NamedTuple):
    """A key tensor and its value, with the element type of the value."""

    key: Value
    value: Value
    value_dtype: DType


def key_of(tensor: Value, dtype: DType) -> Key:
    """Return the identity of a key tensor.

    Raises:
        InvalidArgumentError: the tensor holds variants or resources, which have no content.
    """
    if dtype.kind == "h":
        raise InvalidArgumentError(f"a tensor of {dtype.tf_name} cannot be the key of a map")
    array = np.asarray(tensor)
    content = tuple(array.ravel().tolist()) if array.dtype.hasobject else array.tobytes()
    return Key(dtype.name, array.shape, content)


class TensorMap:
    """An immutable map of tensors, a scalar of dtype variant; changes return new maps.

    Attributes:
        entries: the keys and values, in the order in which the keys were inserted.
    """

    __slots__ = ("entries",)

    dtype: ClassVar[np.dtype[Any]] = dtypes.variant.as_numpy_dtype
    shape: ClassVar[tuple[int, ...]] = ()
    ndim: ClassVar[int] = 0
    size: ClassVar[int] = 1

    def __init__(self, entries: Mapping[Key, Entry] | None = None) -> None:
        self.entries: Mapping[Key, Entry] = entries or {}

    def inserted(self, key: Key, entry: Entry) -> TensorMap:
        """Return the map with one key added or replaced."""
        return TensorMap({**self.entries, key: entry})

    def erased(self, key: Key) -> TensorMap:
        """Return the map without a key.

        Raises:
            KeyError: the map does not have the key.
        """
        entries = dict(self.entries)
        del entries[key]
        return TensorMap(entries)

    def zeros_like(self, xp: ArrayNamespace) -> TensorMap:
        """Return an empty map, which adds nothing to another (see `_variant.AddableVariant`)."""
        del xp
        return TensorMap()

    def add(self, xp: ArrayNamespace, other: Any) -> TensorMap:
        """Return the union of both maps; values with the same key are added.

        Raises:
            InvalidArgumentError: `other` is not a map, or two values cannot be added.
        """
        if not isinstance(other, TensorMap):
            raise InvalidArgumentError(f"cannot add {other!r} to a map of tensors")
        entries = dict(self.entries)
        for key, entry in other.entries.items():
            mine = entries.get(key)
            entries[key] = entry if mine is None else _sum(xp, mine, entry)
        return TensorMap(entries)

    def __repr__(self) -> str:
        return f"<TensorMap of {len(self.entries)} entries>"


def _sum(xp: ArrayNamespace, a: Entry, b: Entry) -> Entry:
    if a.value_dtype is not b.value_dtype or a.value_dtype is dtypes.string:
        raise InvalidArgumentError(
            "cannot add the values of a key in two maps: they are "
            f"{a.value_dtype.tf_name} and {b.value_dtype.tf_name}"
        )
    if a.value_dtype is dtypes.variant:
        total = mapped(lambda item, added: addable(item).add(xp, added), a.value, b.value)
        return Entry(a.key, total, a.value_dtype)
    if a.value.shape != b.value.shape:
        raise InvalidArgumentError(
            "cannot add the values of a key in two maps: their shapes are "
            f"{list(a.value.shape)} and {list(b.value.shape)}"
        )
    return Entry(a.key, xp.add(a.value, b.value), a.value_dtype)
