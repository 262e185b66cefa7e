"""Gradients of fake quantization: passed where a value is within the range, else zero.

Semantics: tensorflow/python/ops/array_grad.py, nn_grad.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.ops import quantized
from graphmill.spi import gradient
from graphmill.spi.gradients import not_differentiable

if TYPE_CHECKING:
    from graphmill.spi.gradients import ForwardOp
    from graphmill.spi.graphs import Tensor


none = not_differentiable(
    "FakeQuantWithMinMaxArgsGradient",
    "FakeQuantWithMinMaxVarsGradient",
    "FakeQuantWithMinMaxVarsPerChannelGradient",
)


def _options(op: ForwardOp, *names: str) -> dict[str, Any]:
    return {name: op.get_attr(name) for name in ("num_bits", "narrow_range", *names)}


@gradient("FakeQuantWithMinMaxArgs")
def by_args(op: ForwardOp, dy: Tensor) -> Tensor:
    """Apply the op's gradient op."""
    options = _options(op, "min", "max")
    return quantized.fake_quant_with_min_max_args_gradient(dy, op.inputs[0], **options)


@gradient("FakeQuantWithMinMaxVars")
def by_vars(op: ForwardOp, dy: Tensor) -> list[Tensor]:
    """Apply the op's gradient op."""
    x, low, high = op.inputs
    build = quantized.fake_quant_with_min_max_vars_gradient
    return list(build(dy, x, low, high, **_options(op)))


@gradient("FakeQuantWithMinMaxVarsPerChannel")
def by_vars_per_channel(op: ForwardOp, dy: Tensor) -> list[Tensor]:
    """Apply the op's gradient op."""
    x, low, high = op.inputs
    build = quantized.fake_quant_with_min_max_vars_per_channel_gradient
    return list(build(dy, x, low, high, **_options(op)))


@gradient("QuantizeAndDequantizeV4")
def round_trip(op: ForwardOp, dy: Tensor) -> list[Tensor]:
    """Apply the op's gradient op."""
    build = quantized.quantize_and_dequantize_v4_grad
    return list(build(dy, *op.inputs, axis=op.get_attr("axis")))


@gradient("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantize")
def straight_through(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Return the gradient unchanged, as if nothing were rounded."""
    return [dy, *[None] * (len(op.inputs) - 1)]
