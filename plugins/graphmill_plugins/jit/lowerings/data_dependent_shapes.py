"""Lower `Unique`, `Range` and `DynamicStitch`, whose output shapes depend on values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.spi import lowering
from graphmill_plugins.jit.idioms.list_length_analysis import are_of_shapes

if TYPE_CHECKING:
    from graphmill.spi import Node
    from graphmill_plugins.jit.tracing.node_trace import NodeTrace


def _why_not_counted(_: Node) -> str:
    """Return why a `Unique` is not compiled unless `SparseDedupAnalysis` accepts its consumers."""
    return "the size of its result depends on the number of distinct values"


@lowering("Unique", refuse=_why_not_counted)
def unique(trace: NodeTrace, x: Any) -> Any:
    """Find the distinct rows that a gradient updates; see `tracing.unique_lowering`."""
    return trace.tracer.rows.find(trace.node, x)


@lowering("Range")
def element_range(trace: NodeTrace, *_: Any) -> Any:
    """Compute a range; if its limit is a list's dynamic length, return rows of a longer range."""
    if not trace.has_static_inputs():
        first_rows = trace.tracer.counts.range_to(trace.node, trace.inputs)
        if first_rows is not None:
            return first_rows
    return trace.kernel()


def _why_not_stitched(node: Node) -> str | None:
    """Return why the size of a stitch depends on values; None if it does not."""
    indices = [edge.src for edge in node.in_edges[: len(node.in_edges) // 2]]
    return (
        None
        if are_of_shapes(indices)
        else "the destination of its rows depends on values that are computed in the step"
    )


@lowering("DynamicStitch", "ParallelDynamicStitch", refuse=_why_not_stitched)
def stitch(trace: NodeTrace, *_: Any) -> Any:
    """Trace the kernel; the indices are static, as they depend only on shapes."""
    return trace.kernel()
