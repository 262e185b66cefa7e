"""Tensor array kernels: arrays that loops write to and read from, and their gradients.

Semantics: tensorflow/core/kernels/tensor_array_ops.cc. The three versions of the ops differ in the
handle: a reference to two strings (container, name), a tensor of the two, or a resource. The flow
scalars order the ops and have no value.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes, errors
from graphmill.runtime.kernel import kernel
from graphmill.runtime.variables import Ref, ResourceHandle
from graphmill_plugins.kernels._elements import joined, rows, stacked, zeros
from graphmill_plugins.kernels._partial_shape import is_compatible
from graphmill_plugins.kernels._strings import string_array
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels._tensor_array import TensorArray

if TYPE_CHECKING:
    from graphmill.runtime.kernel import OpKernelConstruction
    from graphmill.runtime.op_kernel_context import OpKernelContext
    from graphmill.typing import Value

_STATE = ("state",)
_CONTAINER = "_tensor_arrays"
_GRADIENTS = "_tensor_array_grads"
_FLOW = np.float32(0)
_numbers = count()


def array_of(ctx: OpKernelContext, handle: Any) -> TensorArray:
    """Return the tensor array that any kind of handle points to.

    Raises:
        NotFoundError: there is none of that name in this step.
        InvalidArgumentError: the handle is that of something else.
    """
    if type(handle) is ResourceHandle:
        array: TensorArray = handle.expect(TensorArray)
        return array
    return ctx.resources.lookup(ctx.step_container, "".join(_names(handle)), TensorArray)


def _names(handle: Any) -> tuple[str, str]:
    names = handle.read() if isinstance(handle, Ref) else handle
    if names.size != 2:
        raise errors.InvalidArgumentError(
            f"Tensor array handle must be 2-element vector, but had shape: {names.shape}"
        )
    container, name = (part.decode() for part in names.ravel().tolist())
    return container, name


def _typed(
    ctx: OpKernelContext, handle: Any, dtype: dtypes.DType, action: str = "requested"
) -> TensorArray:
    array = array_of(ctx, handle)
    if array.dtype is not dtype:
        raise errors.InvalidArgumentError(
            f"TensorArray dtype is {array.dtype.tf_name} but Op {action} dtype {dtype.tf_name}."
        )
    return array


def _scalar(tensor: Value, what: str) -> int:
    if tensor.ndim:
        raise errors.InvalidArgumentError(
            f"TensorArray {what} must be scalar, but had shape: {shape_text(tensor.shape)}"
        )
    return int(tensor)


def _vector(tensor: Value, what: str) -> list[int]:
    if tensor.ndim != 1:
        raise errors.InvalidArgumentError(
            f"Expected {what} to be a vector, but received shape: {shape_text(tensor.shape)}"
        )
    numbers: list[int] = tensor.tolist()
    return numbers


def _handle_result(
    ctx: OpKernelContext, output: Any, array: TensorArray, names: tuple[str, str]
) -> Any:
    """Return the outputs of an op that makes an array, in the form of its version."""
    if output.type is dtypes.resource:
        container = ctx.step_container
        kind = "tensorflow::TensorArray"
        return ResourceHandle(ctx.device.name, container, "".join(names), kind, array), _FLOW
    strings = string_array([name.encode() for name in names])
    if not output.is_ref:
        return strings
    ref = Ref(dtypes.string, (2,), names[1])
    ref.value = strings
    return ref


@kernel("TensorArray", "TensorArrayV2", "TensorArrayV3", stateful=True, effects=_STATE)
class TensorArrayKernel:
    """Make an array that lives as long as the step."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        attrs = construction.attrs
        self._output = construction.op_def.output_args[0]
        self._name = construction.attr("tensor_array_name") or construction.node_name
        self._dtype: dtypes.DType = attrs["dtype"]
        self._shape = attrs["element_shape"]
        self._options = {
            "dynamic_size": attrs["dynamic_size"],
            "clear_after_read": attrs["clear_after_read"],
            "identical_shapes": attrs.get("identical_element_shapes", False),
        }

    def __call__(self, ctx: OpKernelContext, size: Value) -> Any:
        """Return the handle, and with a resource handle the flow."""
        length = _scalar(size, "size")
        if length < 0:
            raise errors.InvalidArgumentError(f"Size should be >= 0, got {length}")
        names = _CONTAINER, f"{self._name}_{next(_numbers)}"
        array = TensorArray(ctx.xp, names[1], self._dtype, length, self._shape, **self._options)
        ctx.resources.create(ctx.step_container, "".join(names), array)
        return _handle_result(ctx, self._output, array, names)


@kernel(
    "TensorArrayGrad",
    "TensorArrayGradV2",
    "TensorArrayGradV3",
    "TensorArrayGradWithShape",
    stateful=True,
    effects=_STATE,
)
class TensorArrayGradKernel:
    """Find or make the array of gradients of an array; one for each `source`."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._output = construction.op_def.output_args[0]
        self._source = construction.attr("source")

    def __call__(
        self, ctx: OpKernelContext, handle: Any, flow_in: Value, shape_to_prepend: Any = None
    ) -> Any:
        """Return the handle, and with a resource handle the flow."""
        del flow_in
        array = array_of(ctx, handle)
        if array.is_gradient:
            raise errors.InvalidArgumentError(
                f"Input container should be '{_CONTAINER}',  but received '{_GRADIENTS}': "
                f"{array.name} is a gradient itself"
            )
        names = _GRADIENTS, f"{array.name}@{self._source}"
        prefix = () if shape_to_prepend is None else tuple(shape_to_prepend.tolist())
        made = ctx.resources.lookup_or_create(
            ctx.step_container,
            "".join(names),
            TensorArray,
            lambda: array.gradient(names[1], prefix),
        )
        array.dynamic_size = False
        return _handle_result(ctx, self._output, made, names)


@kernel(
    "TensorArrayWrite", "TensorArrayWriteV2", "TensorArrayWriteV3", stateful=True, effects=_STATE
)
class TensorArrayWriteKernel:
    """Set one element."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._dtype: dtypes.DType = construction.attrs["T"]

    def __call__(
        self, ctx: OpKernelContext, handle: Any, index: Value, value: Value, flow_in: Value
    ) -> Value:
        """Return the flow."""
        position = _scalar(index, "index")
        _typed(ctx, handle, self._dtype, "is trying to write").write(position, value)
        return flow_in


@kernel("TensorArrayRead", "TensorArrayReadV2", "TensorArrayReadV3", stateful=True, effects=_STATE)
class TensorArrayReadKernel:
    """Return one element."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._dtype: dtypes.DType = construction.attrs["dtype"]

    def __call__(self, ctx: OpKernelContext, handle: Any, index: Value, flow_in: Value) -> Value:
        """Return the element itself, without a copy."""
        del flow_in
        position = _scalar(index, "index")
        return _typed(ctx, handle, self._dtype).read(position)


class _Packer:
    """What packs elements into one tensor."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._dtype: dtypes.DType = construction.attrs["dtype"]
        self._shape = construction.attrs["element_shape"]

    def _pack(self, ctx: OpKernelContext, array: TensorArray, indices: Any) -> Value:
        array.merge_element_shape(self._shape)
        if not indices:
            shape = array.element_shape
            if shape is None or -1 in shape:
                raise errors.UnimplementedError(
                    f"TensorArray has size zero, but element shape {shape_text(shape)} is not "
                    "fully defined. Currently only static shapes are supported when packing "
                    "zero-size TensorArrays."
                )
            return zeros(ctx.xp, (0, *shape), self._dtype)
        values = array.read_many(indices)
        shape = values[0].shape
        for index, value in enumerate(values):
            if value.shape != shape:
                raise errors.InvalidArgumentError(
                    f"TensorArray has inconsistent shapes.  Index 0 has shape: "
                    f"{shape_text(shape)} but index {index} has shape: {shape_text(value.shape)}"
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
    """Return some elements as one tensor."""

    def __call__(self, ctx: OpKernelContext, handle: Any, indices: Value, flow_in: Value) -> Value:
        """Return the tensor."""
        del flow_in
        array = _typed(ctx, handle, self._dtype)
        return self._pack(ctx, array, _vector(indices, "indices"))


@kernel("TensorArrayPack", stateful=True, effects=_STATE)
class TensorArrayPackKernel(_Packer):
    """Return all elements as one tensor."""

    def __call__(self, ctx: OpKernelContext, handle: Any, flow_in: Value) -> Value:
        """Return the tensor."""
        del flow_in
        array = _typed(ctx, handle, self._dtype)
        return self._pack(ctx, array, range(max(array.pack_size, 0)))


@kernel(
    "TensorArrayConcat",
    "TensorArrayConcatV2",
    "TensorArrayConcatV3",
    stateful=True,
    effects=_STATE,
)
class TensorArrayConcatKernel:
    """Join all elements along their first axis."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._dtype: dtypes.DType = construction.attrs["dtype"]
        self._shape = construction.attrs["element_shape_except0"]

    def __call__(self, ctx: OpKernelContext, handle: Any, flow_in: Value) -> tuple[Value, Value]:
        """Return the joined tensor and how long each part is."""
        del flow_in
        array = _typed(ctx, handle, self._dtype)
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
        rest = values[0].shape[1:]
        for index, value in enumerate(values):
            if not value.ndim:
                raise errors.InvalidArgumentError(
                    f"Concat saw a scalar shape at index {index} but requires at least vectors.  "
                    "Did you mean to call pack?"
                )
            if value.shape[1:] != rest:
                raise errors.InvalidArgumentError(
                    "TensorArray has inconsistent shapes.  Index 0 has (excepting dimension 0) "
                    f"shape: {shape_text(rest)} but index {index} has (excepting dimension 0) "
                    f"shape: {shape_text(value.shape[1:])}"
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
    """Set some elements to those of a tensor."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._dtype: dtypes.DType = construction.attrs["T"]

    def __call__(
        self, ctx: OpKernelContext, handle: Any, indices: Value, value: Value, flow_in: Value
    ) -> Value:
        """Return the flow."""
        array = _typed(ctx, handle, self._dtype, "is trying to write")
        _check_has_rows(value)
        positions = _vector(indices, "indices")
        if len(positions) != value.shape[0]:
            raise errors.InvalidArgumentError(
                "Expected len(indices) == values.shape[0], but saw: "
                f"{len(positions)} vs. {value.shape[0]}"
            )
        array.write_many(positions, rows(value, self._dtype))
        return flow_in


def _check_has_rows(value: Value) -> None:
    if not value.ndim:
        raise errors.InvalidArgumentError(
            "Input value for unpack must be at least a vector but received shape: []"
        )


@kernel("TensorArrayUnpack", stateful=True, effects=_STATE)
class TensorArrayUnpackKernel:
    """Set all elements to those of a tensor."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._dtype: dtypes.DType = construction.attrs["T"]

    def __call__(self, ctx: OpKernelContext, handle: Any, value: Value, flow_in: Value) -> Value:
        """Return the flow."""
        array = _typed(ctx, handle, self._dtype, "is trying to write")
        _check_has_rows(value)
        length = value.shape[0]
        _check_fits(array, length, "Input value's first dimension")
        array.write_many(range(length), rows(value, self._dtype))
        return flow_in


@kernel(
    "TensorArraySplit", "TensorArraySplitV2", "TensorArraySplitV3", stateful=True, effects=_STATE
)
class TensorArraySplitKernel:
    """Set all elements to pieces of a tensor."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._dtype: dtypes.DType = construction.attrs["T"]

    def __call__(
        self, ctx: OpKernelContext, handle: Any, value: Value, lengths: Value, flow_in: Value
    ) -> Value:
        """Return the flow."""
        array = _typed(ctx, handle, self._dtype, "is trying to write")
        sizes = _vector(lengths, "lengths")
        if not value.ndim:
            raise errors.InvalidArgumentError(
                "Expected value to be at least a vector, but received shape: []"
            )
        if sum(sizes) != value.shape[0] or min(sizes, default=0) < 0:
            raise errors.InvalidArgumentError(
                "Expected sum of lengths to be equal to values.shape[0], but sum of lengths is "
                f"{sum(sizes)} and value's shape is: {shape_text(value.shape)}"
            )
        _check_fits(array, len(sizes), "The size of lengths")
        ends = np.cumsum(lengths).tolist()
        pieces = [value[end - size : end] for end, size in zip(ends, sizes, strict=True)]
        array.write_many(range(len(sizes)), pieces)
        return flow_in


@kernel("TensorArraySize", "TensorArraySizeV2", "TensorArraySizeV3", stateful=True, effects=_STATE)
def tensor_array_size(ctx: OpKernelContext, handle: Any, flow_in: Value) -> Value:
    """Return the number of elements."""
    del flow_in
    return np.int32(array_of(ctx, handle).size)


@kernel(
    "TensorArrayClose", "TensorArrayCloseV2", "TensorArrayCloseV3", stateful=True, effects=_STATE
)
def tensor_array_close(ctx: OpKernelContext, handle: Any) -> None:
    """Drop the elements; what uses the array later fails."""
    array_of(ctx, handle).close()
