"""Gradients of tensor arrays: reads become writes to a gradient array, and vice versa.

The gradient of the flow orders the gradient ops: it arrives after all writes to the gradient array.
Semantics: tensorflow/python/ops/tensor_array_grad.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.ops import tensor_array
from graphmill.spi import gradient
from graphmill.spi.gradients import not_differentiable
from graphmill_plugins.gradients._support import as_dense

if TYPE_CHECKING:
    from graphmill.spi.gradients import ForwardOp
    from graphmill.spi.graphs import Tensor

none = not_differentiable(
    "TensorArray", "TensorArrayV2", "TensorArrayV3", "TensorArrayGrad", "TensorArrayGradV2",
    "TensorArrayGradV3", "TensorArraySize", "TensorArraySizeV2", "TensorArraySizeV3",
    "TensorArrayClose", "TensorArrayCloseV2", "TensorArrayCloseV3", "TensorArrayGradWithShape",
)  # fmt: skip


def _gradient_array(op: ForwardOp, flow: Tensor) -> tuple[Tensor, Tensor]:
    """Return handle and flow of the gradient array that belongs to this call of `gradients`."""
    gradient_array = tensor_array.tensor_array_grad_v3(op.inputs[0], flow, source=op.source)
    return gradient_array.grad_handle, gradient_array.flow_out


@gradient("TensorArrayReadV3")
def read(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Write the gradient to the gradient array."""
    _, index, flow = op.inputs
    handle, ready = _gradient_array(op, flow)
    return [None, None, tensor_array.tensor_array_write_v3(handle, index, as_dense(dy), ready)]


@gradient("TensorArrayWriteV3")
def write(op: ForwardOp, flow: Tensor) -> list[Any]:
    """Read the gradient from the gradient array."""
    _, index, value, _ = op.inputs
    handle, ready = _gradient_array(op, flow)
    d_value = tensor_array.tensor_array_read_v3(handle, index, ready, dtype=value.dtype.base_dtype)
    return [None, None, d_value, flow]


@gradient("TensorArrayGatherV3")
def gather(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Scatter the gradient into the gradient array."""
    _, indices, flow = op.inputs
    handle, ready = _gradient_array(op, flow)
    return [None, None, tensor_array.tensor_array_scatter_v3(handle, indices, as_dense(dy), ready)]


@gradient("TensorArrayScatterV3")
def scatter(op: ForwardOp, flow: Tensor) -> list[Any]:
    """Gather the gradient from the gradient array."""
    _, indices, value, _ = op.inputs
    handle, ready = _gradient_array(op, flow)
    kind = value.dtype.base_dtype
    d_value = tensor_array.tensor_array_gather_v3(handle, indices, ready, dtype=kind)
    return [None, None, d_value, flow]


@gradient("TensorArrayConcatV3")
def concat(op: ForwardOp, dy: Tensor | None, _: Any) -> list[Any]:
    """Split the gradient into the gradient array."""
    if dy is None:
        return [None, None]
    handle, ready = _gradient_array(op, op.inputs[1])
    lengths = op.outputs[1]
    return [None, tensor_array.tensor_array_split_v3(handle, as_dense(dy), lengths, ready)]


@gradient("TensorArraySplitV3")
def split(op: ForwardOp, flow: Tensor) -> list[Any]:
    """Concatenate the gradient array."""
    kind = op.inputs[1].dtype.base_dtype
    handle, ready = _gradient_array(op, flow)
    d_value = tensor_array.tensor_array_concat_v3(handle, ready, dtype=kind).value
    return [None, d_value, None, flow]
