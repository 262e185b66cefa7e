"""Tensor array kernels: create, read and write arrays, and their gradients.

Semantics: tensorflow/core/kernels/tensor_array_ops.cc. The three versions of the ops differ in the
handle: a reference to two strings (container, name), a tensor of both strings, or a resource. The
flow scalars only order the ops; their values are not used.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes, errors
from graphmill.spi import Ref, ResourceHandle, kernel
from graphmill_plugins.kernels._strings import string_array
from graphmill_plugins.kernels._support import POINTER_SIZE, check_size, shape_text
from graphmill_plugins.kernels.tensor_array._tensor_array import TensorArray

if TYPE_CHECKING:
    from graphmill.spi import OpKernelConstruction, OpKernelContext, Value

_STATE = ("state",)
_CONTAINER = "_tensor_arrays"
_GRADIENTS = "_tensor_array_grads"
_FLOW = np.float32(0)
_numbers = count()


def array_of(ctx: OpKernelContext, handle: Any) -> TensorArray:
    """Return the tensor array that any kind of handle points to.

    Raises:
        NotFoundError: the step has no tensor array of that name.
        InvalidArgumentError: the handle does not refer to a tensor array.
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


def typed_array(
    ctx: OpKernelContext, handle: Any, dtype: dtypes.DType, action: str = "requested"
) -> TensorArray:
    """Return the tensor array that a handle points to, checked for the op's element type.

    Raises:
        InvalidArgumentError: its element type differs.
    """
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


def _handle_result(
    ctx: OpKernelContext, output: Any, array: TensorArray, names: tuple[str, str]
) -> Any:
    """Return the outputs of an op that creates an array, in the form of the op's version."""
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
    """Create an array that lives as long as the step."""

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
        check_size((length,), "the TensorArray", itemsize=POINTER_SIZE)
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
    """Find or create the gradient array of an array; there is one for each `source`."""

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
        if shape_to_prepend is not None and shape_to_prepend.ndim != 1:
            raise errors.InvalidArgumentError(
                "shape_to_prepend must be a vector of {int32,int64}, got shape "
                f"{list(shape_to_prepend.shape)}"
            )
        names = _GRADIENTS, f"{array.name}@{self._source}"
        prefix = () if shape_to_prepend is None else tuple(shape_to_prepend.tolist())
        tensor_array = ctx.resources.lookup_or_create(
            ctx.step_container,
            "".join(names),
            TensorArray,
            lambda: array.gradient(names[1], prefix),
        )
        array.dynamic_size = False
        return _handle_result(ctx, self._output, tensor_array, names)


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
        typed_array(ctx, handle, self._dtype, "is trying to write").write(position, value)
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
        return typed_array(ctx, handle, self._dtype).read(position)


@kernel("TensorArraySize", "TensorArraySizeV2", "TensorArraySizeV3", stateful=True, effects=_STATE)
def tensor_array_size(ctx: OpKernelContext, handle: Any, flow_in: Value) -> Value:
    """Return the number of elements."""
    del flow_in
    return np.int32(array_of(ctx, handle).size)


@kernel(
    "TensorArrayClose", "TensorArrayCloseV2", "TensorArrayCloseV3", stateful=True, effects=_STATE
)
def tensor_array_close(ctx: OpKernelContext, handle: Any) -> None:
    """Drop the elements; later uses of the array fail."""
    array_of(ctx, handle).close()
