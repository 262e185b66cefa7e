"""Gradients of softmax and losses. Semantics: tensorflow/python/ops/nn_grad.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.ops import array, math, nn
from graphmill.spi import gradient
from graphmill.spi.gradients import not_differentiable
from graphmill_plugins.gradients._support import as_dense

if TYPE_CHECKING:
    from graphmill.spi.gradients import ForwardOp
    from graphmill.spi.graphs import Tensor

none = not_differentiable("InTopK", "InTopKV2", "CTCGreedyDecoder", "CTCBeamSearchDecoder")


def _last_sum(tensor: Tensor) -> Tensor:
    return math.sum(tensor, -1, keep_dims=True)


@gradient("Softmax")
def softmax(op: ForwardOp, dy: Tensor) -> Tensor:
    """Return (dy - sum(dy y)) y."""
    y = op.outputs[0]
    return (dy - _last_sum(dy * y)) * y


@gradient("LogSoftmax")
def log_softmax(op: ForwardOp, dy: Tensor) -> Tensor:
    """Return dy - sum(dy) softmax."""
    return dy - _last_sum(dy) * math.exp(op.outputs[0])


@gradient("SoftmaxCrossEntropyWithLogits")
def softmax_cross_entropy(op: ForwardOp, dy: Tensor | None, second: Tensor | None) -> list[Any]:
    """Scale the gradient that the op computed; `second` is the gradient of that output."""
    logits, by_logits = op.inputs[0], op.outputs[1]
    of_logits = (
        op.zeros(by_logits) if dy is None else array.expand_dims(as_dense(dy), -1) * by_logits
    )
    if second is not None:
        probability = nn.softmax(logits)
        of_logits += (second - _last_sum(second * probability)) * probability
    by_labels = None
    if dy is not None:
        by_labels = array.expand_dims(as_dense(dy), -1) * -nn.log_softmax(logits)
    shapes = [op.shape(tensor) for tensor in op.inputs]
    axes = array.broadcast_gradient_args(*shapes)
    parts = [of_logits, by_labels]
    return [
        None if part is None else array.reshape(math.sum(part, along), shape)
        for part, along, shape in zip(parts, axes, shapes, strict=True)
    ]


@gradient("SparseSoftmaxCrossEntropyWithLogits")
def sparse_softmax_cross_entropy(
    op: ForwardOp, dy: Tensor | None, second: Tensor | None
) -> list[Any]:
    """Scale the gradient that the op computed."""
    by_logits = op.outputs[1]
    of_logits = (
        op.zeros(by_logits) if dy is None else array.expand_dims(as_dense(dy), -1) * by_logits
    )
    if second is not None:
        probability = nn.softmax(op.inputs[0])
        of_logits += (second - _last_sum(second * probability)) * probability
    return [of_logits, None]


@gradient("L2Loss")
def l2_loss(op: ForwardOp, dy: Tensor) -> Tensor:
    """Return the input, scaled."""
    return op.inputs[0] * as_dense(dy)


@gradient("CTCLoss", "CTCLossV2")
def ctc_loss(op: ForwardOp, dy: Tensor | None, _: Any) -> list[Any]:
    """Scale the gradient that the op computed."""
    rest = [None] * (len(op.inputs) - 1)
    if dy is None:
        return [None, *rest]
    return [op.outputs[1] * array.expand_dims(dy, -1), *rest]


@gradient("NthElement")
def nth_element(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Divide the gradient among the elements equal to the selected one."""
    x, selected = op.inputs[0], array.expand_dims(op.outputs[0], -1)
    is_selected = math.cast(math.equal(selected, x), DstT=x.dtype)
    return [is_selected / _last_sum(is_selected) * array.expand_dims(dy, -1), None]
