"""Gradients of convolutions. Semantics: tensorflow/python/ops/nn_grad.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.ops import nn
from graphmill.spi import gradient
from graphmill_plugins.gradients._support import as_dense

if TYPE_CHECKING:
    from graphmill.spi.gradients import ForwardOp
    from graphmill.spi.graphs import Tensor

_NAMES = ("strides", "padding", "explicit_paddings", "data_format", "dilations")


def _options(op: ForwardOp) -> dict[str, Any]:
    return {name: op.get_attr(name) for name in _NAMES if name in op.node.attrs}


@gradient("Conv2D")
def conv2d(op: ForwardOp, dy: Tensor) -> list[Tensor]:
    """Convolve the gradient with the flipped filter, and the input with the gradient."""
    x, kernel = op.inputs
    dense_dy, options = as_dense(dy), _options(op)
    return [
        nn.conv2d_backprop_input(op.shape(x), kernel, dense_dy, **options),
        nn.conv2d_backprop_filter(x, op.shape(kernel), dense_dy, **options),
    ]


@gradient("Conv2DBackpropInput")
def conv2d_backprop_input(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Convolve: the op is linear in both inputs."""
    _, kernel, first_dy = op.inputs
    options = _options(op)
    return [
        None,
        nn.conv2d_backprop_filter(dy, op.shape(kernel), first_dy, **options),
        nn.conv2d(dy, kernel, **options),
    ]


@gradient("Conv2DBackpropFilter")
def conv2d_backprop_filter(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Convolve: the op is linear in both inputs."""
    x, _, first_dy = op.inputs
    options = _options(op)
    return [
        nn.conv2d_backprop_input(op.shape(x), dy, first_dy, **options),
        None,
        nn.conv2d(x, dy, **options),
    ]


@gradient("DepthwiseConv2dNative")
def depthwise_conv2d(op: ForwardOp, dy: Tensor) -> list[Tensor]:
    """Convolve the gradient with the flipped filter, and the input with the gradient."""
    x, kernel = op.inputs
    options = _options(op)
    return [
        nn.depthwise_conv2d_native_backprop_input(op.shape(x), kernel, dy, **options),
        nn.depthwise_conv2d_native_backprop_filter(x, op.shape(kernel), dy, **options),
    ]


@gradient("Conv3D")
def conv3d(op: ForwardOp, dy: Tensor) -> list[Tensor]:
    """Convolve the gradient with the flipped filter, and the input with the gradient."""
    x, kernel = op.inputs
    options = _options(op)
    return [
        nn.conv3d_backprop_input_v2(op.shape(x), kernel, dy, **options),
        nn.conv3d_backprop_filter_v2(x, op.shape(kernel), dy, **options),
    ]


@gradient("Conv3DBackpropInputV2")
def conv3d_backprop_input(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Convolve: the op is linear in both inputs."""
    _, kernel, first_dy = op.inputs
    options = _options(op)
    return [
        None,
        nn.conv3d_backprop_filter_v2(dy, op.shape(kernel), first_dy, **options),
        nn.conv3d(dy, kernel, **options),
    ]


@gradient("Dilation2D")
def dilation2d(op: ForwardOp, dy: Tensor) -> list[Tensor]:
    """Add each gradient to the element of the maximum."""
    x, kernel = op.inputs
    names = ("strides", "rates", "padding")
    options = {name: op.get_attr(name) for name in names}
    return [
        nn.dilation2d_backprop_input(x, kernel, dy, **options),
        nn.dilation2d_backprop_filter(x, kernel, dy, **options),
    ]
