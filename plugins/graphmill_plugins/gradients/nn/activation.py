"""Gradients of activations. Semantics: tensorflow/python/ops/nn_grad.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.ops import array, math, nn
from graphmill.spi import gradient
from graphmill_plugins.gradients._support import as_dense

if TYPE_CHECKING:
    from graphmill.spi.gradients import ForwardOp
    from graphmill.spi.graphs import Tensor


@gradient("Relu")
def relu(op: ForwardOp, dy: Tensor) -> Tensor:
    """Pass the gradient where the output is positive."""
    return nn.relu_grad(as_dense(dy), op.outputs[0])


@gradient("Relu6")
def relu6(op: ForwardOp, dy: Tensor) -> Tensor:
    """Pass the gradient where the output is between 0 and 6."""
    return nn.relu6_grad(dy, op.outputs[0])


@gradient("LeakyRelu")
def leaky_relu(op: ForwardOp, dy: Tensor) -> Tensor:
    """Pass the gradient, times `alpha` where the input is negative."""
    return nn.leaky_relu_grad(dy, op.inputs[0], alpha=op.get_attr("alpha"))


@gradient("Elu")
def elu(op: ForwardOp, dy: Tensor) -> Tensor:
    """Scale by the derivative."""
    return nn.elu_grad(dy, op.outputs[0])


@gradient("Selu")
def selu(op: ForwardOp, dy: Tensor) -> Tensor:
    """Scale by the derivative."""
    return nn.selu_grad(dy, op.outputs[0])


@gradient("Softplus")
def softplus(op: ForwardOp, dy: Tensor) -> Tensor:
    """Scale by the logistic function."""
    return dy * math.sigmoid(op.inputs[0])


@gradient("Softsign")
def softsign(op: ForwardOp, dy: Tensor) -> Tensor:
    """Scale by the derivative."""
    return nn.softsign_grad(dy, op.inputs[0])


@gradient("ReluGrad")
def relu_grad(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Pass the gradient where the output is positive."""
    return [nn.relu_grad(dy, op.inputs[1]), op.zeros(op.inputs[1])]


@gradient("Relu6Grad")
def relu6_grad(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Pass the gradient where the output is between 0 and 6."""
    return [nn.relu6_grad(dy, op.inputs[1]), op.zeros(op.inputs[1])]


@gradient("LeakyReluGrad")
def leaky_relu_grad(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Pass the gradient, times `alpha` where the input is negative."""
    ddy = nn.leaky_relu_grad(dy, op.inputs[1], alpha=op.get_attr("alpha"))
    return [ddy, op.zeros(op.inputs[1])]


@gradient("EluGrad")
def elu_grad(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Differentiate with respect to both inputs; the second derivative of the linear part is 0."""
    y = op.inputs[1]
    second = math.select_v2(y < 0, dy * op.inputs[0], array.zeros_like(y))
    return [nn.elu_grad(dy, y), second]


@gradient("SeluGrad")
def selu_grad(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Differentiate with respect to both inputs; the second derivative of the linear part is 0."""
    y = op.inputs[1]
    second = math.select_v2(y < 0, dy * op.inputs[0], array.zeros_like(y))
    return [nn.selu_grad(dy, y), second]


@gradient("SoftplusGrad")
def softplus_grad(op: ForwardOp, ddy: Tensor) -> list[Any]:
    """Differentiate the logistic function."""
    dy, x = op.inputs
    second = ddy * dy / (math.exp(-x) + 2.0 + math.exp(x))
    return [nn.softplus_grad(ddy, x), second]


@gradient("BiasAddV1")
def bias_add_v1(_op: ForwardOp, dy: Tensor) -> list[Any]:
    """Sum over all axes but the last."""
    axes = math.range(0, array.rank(dy) - 1, 1)
    return [dy, math.sum(dy, axes)]


@gradient("BiasAdd")
def bias_add(op: ForwardOp, dy: Tensor) -> list[Tensor]:
    """Sum over all axes but that of the bias."""
    dense_dy = as_dense(dy)
    return [dense_dy, nn.bias_add_grad(dense_dy, data_format=op.get_attr("data_format"))]


@gradient("BiasAddGrad")
def bias_add_grad(op: ForwardOp, dy: Tensor) -> Tensor:
    """Broadcast over the other axes."""
    zeros = op.zeros(op.inputs[0])
    return nn.bias_add(zeros, dy, data_format=op.get_attr("data_format"))
