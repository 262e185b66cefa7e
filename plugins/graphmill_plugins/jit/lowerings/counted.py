"""Ops whose results have as many elements as values decide, where nobody asks how many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.spi import lowering
from graphmill_plugins.jit.idioms.list_length_analysis import are_of_shapes

if TYPE_CHECKING:
    from graphmill.spi import Node
    from graphmill_plugins.jit.tracing.node_trace import NodeTrace


def _why_not_counted(_: Node) -> str:
    """Return why a `Unique` stays outside, where `RepeatedRows` has not found what reads it."""
    return "its result has as many elements as there are distinct values"


@lowering("Unique", refuse=_why_not_counted)
def unique(trace: NodeTrace, x: Any) -> Any:
    """Find the rows that a gradient has updates for; see `tracing.distinct`."""
    return trace.tracer.rows.find(trace.node, x)


@lowering("Range")
def numbers_of_elements(trace: NodeTrace, *_: Any) -> Any:
    """Compute a range; one up to the length of a list leaves the program."""
    if not trace.has_static_inputs():
        numbers = trace.tracer.counts.numbers(trace.node, trace.inputs)
        if numbers is not None:
            return numbers
    return trace.kernel()


def _why_not_stitched(node: Node) -> str | None:
    """Return why a stitch has a size that values decide, or None."""
    indices = [edge.src for edge in node.in_edges[: len(node.in_edges) // 2]]
    return None if are_of_shapes(indices) else "the step's values say where its rows go"


@lowering("DynamicStitch", "ParallelDynamicStitch", refuse=_why_not_stitched)
def stitch(trace: NodeTrace, *_: Any) -> Any:
    """Stitch by the kernel, where the indices follow from shapes."""
    return trace.kernel()
