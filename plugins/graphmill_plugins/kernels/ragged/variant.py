"""Convert ragged tensors to variants, and variants to batched ragged tensors.

Semantics: tensorflow/core/kernels/ragged_tensor_to_variant_op.cc,
ragged_tensor_from_variant_op.cc.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import check_axis_count
from graphmill_plugins.kernels.ragged._ragged import RaggedVariant, check_nested, splits_of
from graphmill_plugins.kernels.unstack import rows as rows_of

if TYPE_CHECKING:
    from graphmill.spi import Value


def _row(nested: list[Value], values: Value, index: int) -> RaggedVariant:
    """Return one row of a ragged tensor, as a ragged tensor whose rank is one lower."""
    start, stop = int(nested[0][index]), int(nested[0][index + 1])
    inner = []
    for splits in nested[1:]:
        part = splits[start : stop + 1]
        start, stop = int(part[0]), int(part[-1])
        inner.append(part - part[0])
    return RaggedVariant(tuple(inner), values[start:stop])


@kernel("RaggedTensorToVariant", host=True)
def ragged_tensor_to_variant(
    rt_nested_splits: list[Value], rt_dense_values: Value, batched_input: bool
) -> Value:
    """Return a ragged tensor as one variant, or as a vector with a variant for each row."""
    check_nested(rt_nested_splits, rt_dense_values)
    if not batched_input:
        return RaggedVariant(tuple(rt_nested_splits), rt_dense_values)
    if rt_nested_splits:
        count = len(rt_nested_splits[0]) - 1
        rows = [_row(rt_nested_splits, rt_dense_values, index) for index in range(count)]
    else:
        if not rt_dense_values.ndim:
            raise InvalidArgumentError("a scalar has no rows to put in variants")
        dtype = dtypes.as_dtype(rt_dense_values.dtype)
        rows = [RaggedVariant((), row) for row in rows_of(rt_dense_values, dtype)]
    out = np.empty(len(rows), object)
    out[:] = rows
    return out


def _components(
    encoded: Value, ragged_rank: int, Tvalues: np.dtype[Any], Tsplits: np.dtype[Any]
) -> list[RaggedVariant]:
    """Return the ragged tensors that variants hold.

    Raises:
        InvalidArgumentError: a variant holds something else, or another ragged rank or type.
    """
    flat = encoded.reshape(-1).tolist() if isinstance(encoded, np.ndarray) else [encoded]
    for index, component in enumerate(flat):
        values = _values_of(component, index)
        if len(component.nested_splits) != ragged_rank:
            raise InvalidArgumentError(
                f"Encoded input RaggedTensorVariant has ragged_rank="
                f"{len(component.nested_splits)}. Expected ragged_rank={ragged_rank}."
            )
        _check_type(values, Tvalues)
        if any(splits.dtype != Tsplits for splits in component.nested_splits):
            raise InvalidArgumentError(f"Expected row_splits Tensor dtype: {Tsplits}")
    return flat


def _values_of(component: object, index: int) -> Value:
    if not isinstance(component, RaggedVariant):
        raise InvalidArgumentError(
            f"Input Variant element at index {index} doesn't hold a RaggedTensorVariant"
        )
    return component.values


def _check_type(values: Value, expected: np.dtype[Any]) -> None:
    if values.dtype != expected:  # quantized values are stored as plain integers
        raise InvalidArgumentError(
            f"Expected values Tensor dtype: {dtypes.as_dtype(expected).name}, found: "
            f"{dtypes.as_dtype(values.dtype).name}"
        )


@kernel("RaggedTensorFromVariant", host=True)
def ragged_tensor_from_variant(
    encoded_ragged: Value,
    input_ragged_rank: int,
    output_ragged_rank: int,
    Tvalues: np.dtype[Any],
    Tsplits: np.dtype[Any],
) -> tuple[list[Value], Value]:
    """Concatenate the ragged tensors of variants; the axes of the variants become outermost."""
    axes = encoded_ragged.ndim if isinstance(encoded_ragged, np.ndarray) else 0
    rank = output_ragged_rank - axes if input_ragged_rank == -1 else input_ragged_rank
    if rank < 0 or output_ragged_rank != axes + rank:
        raise InvalidArgumentError(
            "output_ragged_rank must be equal to input_ragged_rank + encoded_ragged.dims(); "
            f"output_ragged_rank: {output_ragged_rank}, input_ragged_rank: {input_ragged_rank}, "
            f"encoded_ragged.dims(): {axes}"
        )
    components = _components(encoded_ragged, rank, Tvalues, Tsplits)
    if not axes:
        return list(components[0].nested_splits), components[0].values
    return _concatenated(components, encoded_ragged.shape, rank, Tvalues, Tsplits)


def _concatenated(
    components: list[RaggedVariant],
    outer: tuple[int, ...],
    rank: int,
    Tvalues: np.dtype[Any],
    Tsplits: np.dtype[Any],
) -> tuple[list[Value], Value]:
    nested = [
        (np.arange(math.prod(outer[:axis]) + 1) * outer[axis]).astype(Tsplits)
        for axis in range(1, len(outer))
    ]
    for level in range(rank + 1):
        if level == 0:
            lengths = [
                len(component.nested_splits[0]) - 1 if rank else _first_size(component.values)
                for component in components
            ]
        else:
            parts = [np.diff(component.nested_splits[level - 1]) for component in components]
            lengths = np.concatenate(parts).tolist() if parts else []
        nested.append(splits_of(lengths, Tsplits))
    if not components:
        return nested, np.zeros(0, Tvalues)
    if len({component.values.shape[1:] for component in components}) > 1:
        raise InvalidArgumentError(
            "all values must have the same shape except in their first dimension"
        )
    return nested, np.concatenate([component.values for component in components])


def _first_size(values: Value) -> int:
    if not values.ndim:
        raise InvalidArgumentError("Cannot unbatch: the values of a ragged tensor are a scalar")
    return int(values.shape[0])


@kernel("RaggedTensorToVariantGradient", host=True)
def ragged_tensor_to_variant_gradient(
    encoded_ragged_grad: Value,
    row_splits: Value,
    dense_values_shape: Value,
    Tvalues: np.dtype[Any],
) -> Value:
    """Return the gradient of the dense values from the gradients of their variants."""
    if dense_values_shape.ndim != 1:
        raise InvalidArgumentError(
            f"dense_values_shape must be a vector, got shape {list(dense_values_shape.shape)}"
        )
    check_axis_count(dense_values_shape, "dense_values_shape")
    shape = tuple(dense_values_shape.tolist())
    if min(shape, default=0) < 0:
        raise InvalidArgumentError(f"Dimension {min(shape)} must be >= 0, got {list(shape)}")
    if isinstance(encoded_ragged_grad, np.ndarray):
        flat = _flat_gradient(encoded_ragged_grad.reshape(-1), row_splits, shape, Tvalues)
    else:
        flat = _values_of(encoded_ragged_grad, 0)
        _check_type(flat, Tvalues)
    if flat.size != math.prod(shape):
        raise InvalidArgumentError(
            f"the gradients have {flat.size} elements, which is not the number of elements of "
            f"dense_values_shape: {list(shape)}"
        )
    return flat.reshape(shape)


def _flat_gradient(
    components: Value, row_splits: Value, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Value:
    lengths = np.diff(row_splits) if row_splits.size else np.ones(components.size, int)
    if len(lengths) != components.size:
        raise InvalidArgumentError(
            f"row_splits have {len(lengths)} rows, but there are {components.size} gradients"
        )
    if lengths.min(initial=0) < 0:
        raise InvalidArgumentError(f"row_splits must not decrease, but row {lengths.argmin()} does")
    parts = [np.zeros(0, dtype)]
    for component, length in zip(components.tolist(), lengths.tolist(), strict=True):
        if isinstance(component, RaggedVariant):
            _check_type(component.values, dtype)
            parts.append(component.values.reshape(-1))
        else:  # this row has no gradient
            parts.append(np.zeros(length * math.prod(shape[1:]), dtype))
    return np.concatenate(parts)
