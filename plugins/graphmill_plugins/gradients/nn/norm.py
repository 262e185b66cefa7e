"""Gradients of normalizations. Semantics: tensorflow/python/ops/nn_grad.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.ops import array, math, nn
from graphmill.spi import gradient
from graphmill_plugins.gradients._support import as_dense, const

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi.gradients import ForwardOp
    from graphmill.spi.graphs import Tensor


def _normalized(op: ForwardOp, dys: tuple[Any, ...], build: Callable[..., Any]) -> list[Any]:
    dy, is_training = dys[0], op.get_attr("is_training")
    x, scale = op.inputs[0], op.inputs[1]
    dense_dy = op.zeros(op.outputs[0]) if dy is None else as_dense(dy)
    saved = list(op.outputs[3:]) if is_training else [op.inputs[3], op.inputs[4], *op.outputs[5:]]
    attrs = {name: op.get_attr(name) for name in ("epsilon", "data_format", "is_training")}
    gradients = build(dense_dy, x, scale, *saved[: 3 if op.type.endswith("V3") else 2], **attrs)
    return [gradients.x_backprop, gradients.scale_backprop, gradients.offset_backprop, None, None]


@gradient("FusedBatchNorm")
def fused_batch_norm(op: ForwardOp, *dys: Any) -> list[Any]:
    """Apply the op's gradient op."""
    return _normalized(op, dys, nn.fused_batch_norm_grad)


@gradient("FusedBatchNormV2")
def fused_batch_norm_v2(op: ForwardOp, *dys: Any) -> list[Any]:
    """Apply the op's gradient op."""
    return _normalized(op, dys, nn.fused_batch_norm_grad_v2)


@gradient("FusedBatchNormV3")
def fused_batch_norm_v3(op: ForwardOp, *dys: Any) -> list[Any]:
    """Apply the op's gradient op."""
    return _normalized(op, dys, nn.fused_batch_norm_grad_v3)


@gradient("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3")
def fused_batch_norm_grad(op: ForwardOp, *dys: Any) -> list[Any]:
    """Return second derivatives; saved statistics are treated as functions of x.

    Semantics: tensorflow/python/ops/nn_fused_batch_norm_grad.py.
    """
    gradients = [
        math.cast(op.zeros(op.outputs[i]) if dy is None else as_dense(dy), DstT="float32")
        for i, dy in enumerate(dys[:3])
    ]
    dy, x = (math.cast(tensor, DstT="float32") for tensor in op.inputs[:2])
    channels = _Channels(op.get_attr("data_format"))
    build = _trained if op.get_attr("is_training") else _inferred
    by_dy, by_x, by_scale = build(op, channels, dy, x, gradients)
    kind = op.inputs[1].dtype.base_dtype
    parts = [math.cast(by_dy, DstT=kind), math.cast(by_x, DstT=kind), by_scale]
    return [*parts, *[None] * (len(op.inputs) - 3)]


class _Channels:
    """Sums over all axes but that of the channels."""

    def __init__(self, data_format: bytes) -> None:
        rank = len(data_format)
        channel = data_format.index(b"C")
        self._axes = [axis for axis in range(rank) if axis != channel]
        self._shape = [-1 if axis == channel else 1 for axis in range(rank)]

    def mean(self, x: Tensor) -> Tensor:
        return math.mean(x, self._axes, keep_dims=True)

    def sum(self, x: Tensor) -> Tensor:
        return math.sum(x, self._axes)

    def spread(self, vector: Tensor) -> Tensor:
        return array.reshape(vector, self._shape)


def _trained(
    op: ForwardOp, channels: _Channels, dy: Tensor, x: Tensor, gradients: list[Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of the gradient of batch normalization in training mode.

    The differentiated outputs are s r (dy - m(dy) - r² u m(dy u)), Σ r u dy and Σ dy, where s is
    the scale, m the mean over a channel, u = x - m(x) and r = 1 / sqrt(m(u²) + epsilon).
    """
    by_dx, by_dscale, by_doffset = gradients
    mean, spread = channels.mean, channels.spread
    scale, along_scale, along_offset = map(spread, (op.inputs[2], by_dscale, by_doffset))
    u = x - mean(x)
    r = math.rsqrt(mean(math.square(u)) + const(x, op.get_attr("epsilon")))
    r2 = math.square(r)
    dy_off, given_off = dy - mean(dy), by_dx - mean(by_dx)
    p, q = mean(dy * u), mean(by_dx * u)
    c = mean(by_dx * dy_off)
    by_dy = scale * r * (given_off - r2 * u * q) + along_scale * r * u + along_offset
    by_scale = channels.sum(by_dx * r * (dy_off - r2 * u * p))
    curved = (c - 3 * r2 * p * q) * u + q * dy_off + p * given_off
    by_x = along_scale * r * (dy_off - r2 * p * u) - scale * r * r2 * curved
    return by_dy, by_x, by_scale


def _inferred(
    op: ForwardOp, channels: _Channels, dy: Tensor, x: Tensor, gradients: list[Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Differentiate s r dy, Σ r (x - mean) dy and Σ dy, where r comes from the variance input."""
    by_dx, by_dscale, by_doffset = gradients
    scale, mean, variance = map(channels.spread, op.inputs[2:5])
    r = math.rsqrt(variance + const(variance, op.get_attr("epsilon")))
    along_scale = channels.spread(by_dscale) * r
    by_dy = by_dx * scale * r + along_scale * (x - mean) + channels.spread(by_doffset)
    return by_dy, along_scale * dy, channels.sum(by_dx * dy * r)


@gradient("LRN")
def lrn(op: ForwardOp, dy: Tensor) -> Tensor:
    """Apply the op's gradient op."""
    names = ("depth_radius", "bias", "alpha", "beta")
    return nn.lrn_grad(dy, op.inputs[0], op.outputs[0], **{n: op.get_attr(n) for n in names})


@gradient("BatchNormWithGlobalNormalization")
def batch_norm(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Apply the op's gradient op."""
    t, mean, variance, _, gamma = op.inputs
    gradients = nn.batch_norm_with_global_normalization_grad(
        t,
        mean,
        variance,
        gamma,
        dy,
        variance_epsilon=op.get_attr("variance_epsilon"),
        scale_after_normalization=op.get_attr("scale_after_normalization"),
    )
    return list(gradients)
