"""A straight-through gradient of rounding, for quantization-aware training."""

from __future__ import annotations

from graphmill.spi import gradient, hookimpl


@gradient("Round")
def round_gradient(op, dy):
    return dy


@hookimpl
def graphmill_register_gradients(gradients):
    gradients.add(round_gradient)
