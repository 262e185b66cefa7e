"""Imported when a graph first has a `Relu6`."""

from __future__ import annotations

from graphmill.spi import kernel


@kernel("Relu6", priority=2)
def relu6(xp, features):
    return xp.clip(features, 0, 6)
