"""Gradients of normalisations. Semantics: tensorflow/python/ops/nn_grad.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.ops import nn
from graphmill.plugin.gradient_declaration import gradient
from graphmill_plugins.gradients._support import as_dense

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.backprop.forward_op import ForwardOp
    from graphmill.graph.tensor import Tensor


def _normalised(op: ForwardOp, dys: tuple[Any, ...], build: Callable[..., Any]) -> list[Any]:
    dy, is_training = dys[0], op.get_attr("is_training")
    x, scale = op.inputs[0], op.inputs[1]
    given = op.zeros(op.outputs[0]) if dy is None else as_dense(dy)
    saved = list(op.outputs[3:]) if is_training else [op.inputs[3], op.inputs[4], *op.outputs[5:]]
    attrs = {name: op.get_attr(name) for name in ("epsilon", "data_format", "is_training")}
    found = build(given, x, scale, *saved[: 3 if op.type.endswith("V3") else 2], **attrs)
    return [found.x_backprop, found.scale_backprop, found.offset_backprop, None, None]


@gradient("FusedBatchNorm")
def fused_batch_norm(op: ForwardOp, *dys: Any) -> list[Any]:
    """Call the op for it."""
    return _normalised(op, dys, nn.fused_batch_norm_grad)


@gradient("FusedBatchNormV2")
def fused_batch_norm_v2(op: ForwardOp, *dys: Any) -> list[Any]:
    """Call the op for it."""
    return _normalised(op, dys, nn.fused_batch_norm_grad_v2)


@gradient("FusedBatchNormV3")
def fused_batch_norm_v3(op: ForwardOp, *dys: Any) -> list[Any]:
    """Call the op for it."""
    return _normalised(op, dys, nn.fused_batch_norm_grad_v3)


@gradient("LRN")
def lrn(op: ForwardOp, dy: Tensor) -> Tensor:
    """Call the op for it."""
    names = ("depth_radius", "bias", "alpha", "beta")
    return nn.lrn_grad(dy, op.inputs[0], op.outputs[0], **{n: op.get_attr(n) for n in names})


@gradient("BatchNormWithGlobalNormalization")
def batch_norm(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Call the op for it."""
    t, mean, variance, _, gamma = op.inputs
    found = nn.batch_norm_with_global_normalization_grad(
        t,
        mean,
        variance,
        gamma,
        dy,
        variance_epsilon=op.get_attr("variance_epsilon"),
        scale_after_normalization=op.get_attr("scale_after_normalization"),
    )
    return list(found)
