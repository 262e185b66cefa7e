"""Gradients that become available only together, for `gate_gradients`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from graphmill.backprop.indexed_slices import IndexedSlices
from graphmill.graph.dependencies import tuple as together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.backprop.indexed_slices import Gradient


def gated(gradients: Sequence[Gradient | None]) -> list[Gradient | None]:
    """Return gradients that become available only when all of them have been computed."""
    present = [item for item in gradients if item is not None]
    if len(present) < 2:
        return list(gradients)
    graph = present[0].graph
    values = [item.values if isinstance(item, IndexedSlices) else item for item in gradients]
    with graph.device(None), graph.colocate_with(None, ignore_existing=True):
        results = together(values)
    return [
        replace(item, values=value) if isinstance(item, IndexedSlices) else value
        for item, value in zip(gradients, results, strict=True)
    ]
