"""Tensor array kernels that read or write many elements as one tensor.

Semantics: tensorflow/core/kernels/tensor_array_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes, errors
from graphmill.spi import kernel
from graphmill.spi.kernels import shape_of_value
from graphmill_plugins.kernels._partial_shape import is_compatible
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.tensor_array.ops import typed_array
from graphmill_plugins.kernels.unstack import joined, rows, stacked, zeros

if TYPE_CHECKING:
    from graphmill.spi import OpKernelConstruction, OpKernelContext, Value
    from graphmill_plugins.kernels.tensor_array._tensor_array import TensorArray

_STATE = ("state",)


def _vector(tensor: Value, what: str) -> list[int]:
    if tensor.ndim != 1:
        raise errors.InvalidArgumentError(
            f"Expected {what} to be a vector, but received shape: {shape_text(tensor.shape)}"
        )
    numbers: list[int] = tensor.tolist()
    return numbers


class _Packer:
    """Packs elements into one tensor."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._dtype: dtypes.DType = construction.attrs["dtype"]
        self._shape = construction.attrs["element_shape"]

    def _pack(self, ctx: OpKernelContext, array: TensorArray, indices: Any) -> Value:
        array.merge_element_shape(self._shape)
        if not indices:
            shape = self._shape
            if shape is None or -1 in shape:
                raise errors.UnimplementedError(
                    f"TensorArray has size zero, but element shape {shape_text(shape)} is not "
                    "fully defined. Currently only static shapes are supported when packing "
                    "zero-size TensorArrays."
                )
            return zeros(ctx.xp, (0, *shape), self._dtype)
        values = array.read_many(indices)
        shape = shape_of_value(values[0], self._dtype)
        if not is_compatible(self._shape, shape):
            raise errors.InvalidArgumentError(
                f"TensorArray was passed element_shape {shape_text(self._shape)} which does not "
                f"match the Tensor at index 0: {shape_text(shape)}"
            )
        for index, value in enumerate(values):
            actual = shape_of_value(value, self._dtype)
            if actual != shape:
                raise errors.InvalidArgumentError(
                    f"TensorArray has inconsistent shapes.  Index 0 has shape: "
                    f"{shape_text(shape)} but index {index} has shape: {shape_text(actual)}"
                )
        return stacked(ctx.xp, values, shape, self._dtype)


@kernel(
    "TensorArrayGather",
    "TensorArrayGatherV2",
    "TensorArrayGatherV3",
    stateful=True,
    effects=_STATE,
)
class TensorArrayGatherKernel(_Packer):
    """Return the elements at `indices` as one tensor."""

    def __call__(self, ctx: OpKernelContext, handle: Any, indices: Value, flow_in: Value) -> Value:
        """Return the tensor."""
        del flow_in
        array = typed_array(ctx, handle, self._dtype)
        return self._pack(ctx, array, _vector(indices, "indices"))


@kernel("TensorArrayPack", stateful=True, effects=_STATE)
class TensorArrayPackKernel(_Packer):
    """Return all elements as one tensor."""

    def __call__(self, ctx: OpKernelContext, handle: Any, flow_in: Value) -> Value:
        """Return the tensor."""
        del flow_in
        array = typed_array(ctx, handle, self._dtype)
        return self._pack(ctx, array, range(max(array.pack_size, 0)))


@kernel(
    "TensorArrayConcat",
    "TensorArrayConcatV2",
    "TensorArrayConcatV3",
    stateful=True,
    effects=_STATE,
)
class TensorArrayConcatKernel:
    """Concatenate all elements along their first axis."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._dtype: dtypes.DType = construction.attrs["dtype"]
        self._shape = construction.attrs["element_shape_except0"]

    def __call__(self, ctx: OpKernelContext, handle: Any, flow_in: Value) -> tuple[Value, Value]:
        """Return the concatenated tensor and the length of each part."""
        del flow_in
        array = typed_array(ctx, handle, self._dtype)
        size = array.pack_size
        if size <= 0:
            return self._empty(ctx), np.zeros(0, np.int64)
        values = array.read_many(range(size))
        self._check(values)
        lengths = np.array([value.shape[0] for value in values], np.int64)
        return joined(ctx.xp, values), lengths

    def _empty(self, ctx: OpKernelContext) -> Value:
        shape = self._shape
        if shape is None or -1 in shape:
            raise errors.UnimplementedError(
                f"TensorArray has size zero, but element_shape_except0 {shape_text(shape)} is not "
                "fully defined. Currently only static shapes are supported when concatenating "
                "zero-size TensorArrays."
            )
        return zeros(ctx.xp, (0, *shape), self._dtype)

    def _check(self, values: list[Value]) -> None:
        shapes = [shape_of_value(value, self._dtype) for value in values]
        rest = shapes[0][1:]
        for index, shape in enumerate(shapes):
            if not shape:
                raise errors.InvalidArgumentError(
                    f"Concat saw a scalar shape at index {index} but requires at least vectors.  "
                    "Did you mean to call pack?"
                )
            if shape[1:] != rest:
                raise errors.InvalidArgumentError(
                    "TensorArray has inconsistent shapes.  Index 0 has (excepting dimension 0) "
                    f"shape: {shape_text(rest)} but index {index} has (excepting dimension 0) "
                    f"shape: {shape_text(shape[1:])}"
                )
        if not is_compatible(self._shape, rest):
            raise errors.InvalidArgumentError(
                f"TensorArray was passed element_shape_except0 {shape_text(self._shape)} but index "
                f"0 has (excepting dimension 0) shape: {shape_text(rest)} which does not match."
            )


def _check_fits(array: TensorArray, length: int, what: str) -> None:
    size = array.size
    if array.dynamic_size and size < length:
        size = length
    if size != length:
        raise errors.InvalidArgumentError(
            f"{what} must be equal to the array size ({length} vs. {size}), and the TensorArray "
            f"{array.name} is not marked as dynamically resizeable"
        )
    array.mark_size(size)


@kernel(
    "TensorArrayScatter",
    "TensorArrayScatterV2",
    "TensorArrayScatterV3",
    stateful=True,
    effects=_STATE,
)
class TensorArrayScatterKernel:
    """Set the elements at `indices` to the rows of a tensor."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._dtype: dtypes.DType = construction.attrs["T"]

    def __call__(
        self, ctx: OpKernelContext, handle: Any, indices: Value, value: Value, flow_in: Value
    ) -> Value:
        """Return the flow."""
        array = typed_array(ctx, handle, self._dtype, "is trying to write")
        shape = _shape_of_rows(value, self._dtype)
        positions = _vector(indices, "indices")
        if len(positions) != shape[0]:
            raise errors.InvalidArgumentError(
                "Expected len(indices) == values.shape[0], but saw: "
                f"{len(positions)} vs. {shape[0]}"
            )
        array.write_many(positions, rows(value, self._dtype))
        return flow_in


def _shape_of_rows(value: Value, dtype: dtypes.DType) -> tuple[int, ...]:
    shape = shape_of_value(value, dtype)
    if not shape:
        raise errors.InvalidArgumentError(
            "Input value for unpack must be at least a vector but received shape: []"
        )
    return shape


@kernel("TensorArrayUnpack", stateful=True, effects=_STATE)
class TensorArrayUnpackKernel:
    """Set all elements to the rows of a tensor."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._dtype: dtypes.DType = construction.attrs["T"]

    def __call__(self, ctx: OpKernelContext, handle: Any, value: Value, flow_in: Value) -> Value:
        """Return the flow."""
        array = typed_array(ctx, handle, self._dtype, "is trying to write")
        shape = _shape_of_rows(value, self._dtype)
        length = shape[0]
        _check_fits(array, length, "Input value's first dimension")
        array.write_many(range(length), rows(value, self._dtype))
        return flow_in


@kernel(
    "TensorArraySplit", "TensorArraySplitV2", "TensorArraySplitV3", stateful=True, effects=_STATE
)
class TensorArraySplitKernel:
    """Set all elements to consecutive pieces of a tensor."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._dtype: dtypes.DType = construction.attrs["T"]

    def __call__(
        self, ctx: OpKernelContext, handle: Any, value: Value, lengths: Value, flow_in: Value
    ) -> Value:
        """Return the flow."""
        array = typed_array(ctx, handle, self._dtype, "is trying to write")
        sizes = _vector(lengths, "lengths")
        shape = shape_of_value(value, self._dtype)
        if not shape:
            raise errors.InvalidArgumentError(
                "Expected value to be at least a vector, but received shape: []"
            )
        if sum(sizes) != shape[0] or min(sizes, default=0) < 0:
            raise errors.InvalidArgumentError(
                "Expected sum of lengths to be equal to values.shape[0], but sum of lengths is "
                f"{sum(sizes)} and value's shape is: {shape_text(shape)}"
            )
        _check_fits(array, len(sizes), "The size of lengths")
        ends = np.cumsum(lengths).tolist()
        pieces = [value[end - size : end] for end, size in zip(ends, sizes, strict=True)]
        array.write_many(range(len(sizes)), pieces)
        return flow_in
