"""Kernels for NumPy, and for any array library that has no better one."""

from __future__ import annotations

from graphmill.spi import kernel


@kernel("Downstream>SoftShrink")
def soft_shrink(xp, x, *, margin):
    edge = x.dtype.type(margin)
    return xp.sign(x) * xp.maximum(xp.abs(x) - edge, x.dtype.type(0))


@kernel("Relu6", priority=2)
def relu6(xp, features):
    return xp.clip(features, 0, 6).astype(features.dtype)
