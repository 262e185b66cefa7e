"""Gradients of pooling. Semantics: tensorflow/python/ops/nn_grad.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.ops import math, nn
from graphmill.spi import gradient

if TYPE_CHECKING:
    from graphmill.spi.gradients import ForwardOp
    from graphmill.spi.graphs import Tensor


def _options(op: ForwardOp, *names: str) -> dict[str, Any]:
    return {name: op.get_attr(name) for name in names}


@gradient("MaxPool")
def max_pool(op: ForwardOp, dy: Tensor) -> Tensor:
    """Add each gradient to the element of the maximum."""
    names = ("ksize", "strides", "padding", "explicit_paddings", "data_format")
    return nn.max_pool_grad(op.inputs[0], op.outputs[0], dy, **_options(op, *names))


@gradient("MaxPoolV2")
def max_pool_v2(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Add each gradient to the element of the maximum."""
    options = _options(op, "padding", "data_format")
    sizes = op.inputs[1:]
    return [nn.max_pool_grad_v2(op.inputs[0], op.outputs[0], dy, *sizes, **options), None, None]


@gradient("MaxPoolWithArgmax")
def max_pool_with_argmax(op: ForwardOp, dy: Tensor | None, _: Any) -> Tensor | None:
    """Add each gradient to the element of the maximum."""
    if dy is None:
        return None
    names = ("ksize", "strides", "padding", "include_batch_in_index")
    options = _options(op, *names)
    return nn.max_pool_grad_with_argmax(op.inputs[0], dy, op.outputs[1], **options)


@gradient("MaxPoolGrad")
def max_pool_grad(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Gather the gradients of the maxima."""
    options = _options(op, "ksize", "strides", "padding", "data_format")
    x, y = op.inputs[:2]
    ddy = nn.max_pool_grad_grad(x, y, dy, **options)
    return [op.zeros(x), op.zeros(y), ddy]


@gradient("MaxPoolGradV2")
def max_pool_grad_v2(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Gather the gradients of the maxima."""
    options = _options(op, "padding", "data_format")
    x, y, _, *sizes = op.inputs
    ddy = nn.max_pool_grad_grad_v2(x, y, dy, *sizes, **options)
    return [op.zeros(x), op.zeros(y), ddy, None, None]


@gradient("MaxPoolGradGrad")
def max_pool_grad_grad(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Add each gradient to the element of the maximum."""
    options = _options(op, "ksize", "strides", "padding", "data_format")
    x, y = op.inputs[:2]
    return [op.zeros(x), op.zeros(y), nn.max_pool_grad(x, y, dy, **options)]


@gradient("FractionalMaxPool")
def fractional_max_pool(op: ForwardOp, dy: Tensor | None, *_: Any) -> Tensor | None:
    """Add each gradient to the element of the maximum."""
    if dy is None:
        return None
    options = _options(op, "overlapping")
    return nn.fractional_max_pool_grad(op.inputs[0], op.outputs[0], dy, *op.outputs[1:], **options)


@gradient("FractionalAvgPool")
def fractional_avg_pool(op: ForwardOp, dy: Tensor | None, *_: Any) -> Tensor | None:
    """Share each gradient among the elements of the window."""
    if dy is None:
        return None
    shape = math.cast(op.shape(op.inputs[0]), DstT="int64")
    options = _options(op, "overlapping")
    return nn.fractional_avg_pool_grad(shape, dy, *op.outputs[1:], **options)


@gradient("AvgPool")
def avg_pool(op: ForwardOp, dy: Tensor) -> Tensor:
    """Share each gradient among the elements of the window."""
    options = _options(op, "ksize", "strides", "padding", "data_format")
    return nn.avg_pool_grad(op.shape(op.inputs[0]), dy, **options)


@gradient("AvgPoolGrad")
def avg_pool_grad(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Apply average pooling."""
    options = _options(op, "ksize", "strides", "padding", "data_format")
    return [None, nn.avg_pool(dy, **options)]


@gradient("AvgPool3D")
def avg_pool3d(op: ForwardOp, dy: Tensor) -> Tensor:
    """Share each gradient among the elements of the window."""
    options = _options(op, "ksize", "strides", "padding", "data_format")
    return nn.avg_pool3d_grad(op.shape(op.inputs[0]), dy, **options)


@gradient("MaxPool3D")
def max_pool3d(op: ForwardOp, dy: Tensor) -> Tensor:
    """Add each gradient to the element of the maximum."""
    options = _options(op, "ksize", "strides", "padding", "data_format")
    return nn.max_pool3d_grad(op.inputs[0], op.outputs[0], dy, **options)


@gradient("MaxPool3DGrad")
def max_pool3d_grad(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Gather the gradients of the maxima."""
    options = _options(op, "ksize", "strides", "padding", "data_format")
    x, y = op.inputs[:2]
    return [op.zeros(x), op.zeros(y), nn.max_pool3d_grad_grad(x, y, dy, **options)]


@gradient("MaxPool3DGradGrad")
def max_pool3d_grad_grad(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Add each gradient to the elements of the maximum."""
    options = _options(op, "ksize", "strides", "padding", "data_format")
    x, y = op.inputs[:2]
    return [op.zeros(x), op.zeros(y), nn.max_pool3d_grad(x, y, dy, **options)]


@gradient("AvgPool3DGrad")
def avg_pool3d_grad(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Apply average pooling."""
    options = _options(op, "ksize", "strides", "padding", "data_format")
    return [None, nn.avg_pool3d(dy, **options)]
