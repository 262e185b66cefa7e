"""Count constant segments: `SparseSegmentMean` becomes `…WithNumSegments`.

A model that looks up a fixed number of rows for each example has constant segments. With a static
number of segments the reduction can be compiled. Its gradient `SparseSegmentMeanGradV2` sums the
rows of equal indices. If the optimizer sums them, too (`Unique`, then `UnsortedSegmentSum`),
`_SegmentRows` replaces the gradient and returns its rows without summing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import dtypes
from graphmill.spi import TensorAttr
from graphmill.spi.graphs import is_constant
from graphmill.spi.passes import is_overridden
from graphmill_plugins.jit.idioms import SCALES, WITH_COUNT
from graphmill_plugins.jit.ir.unique_name import unique_name

if TYPE_CHECKING:
    from graphmill.spi import Edge, Graph, Node
    from graphmill.spi.passes import PassOptions

_SUMMED_IN_OWN_TYPE: Final = frozenset({"float32", "float64"})  # sums have no higher precision


def count_constant_segments(graph: Graph, options: PassOptions) -> None:
    """Replace sparse segment reductions, and their gradients, whose segment ids are constant."""
    for node in list(graph.nodes):
        is_counted = node.op in WITH_COUNT
        if not (is_counted or node.op in SCALES) or is_overridden(node, options):
            continue
        if is_counted:
            _count_segments(graph, node, options)
        else:
            _keep_duplicates(graph, node, options)


def _constant_ids(node: Node) -> Any:
    """Return the segment ids of a node if they are constant and ascending; else None."""
    source = node.in_edges[2].src
    if not is_constant(source):
        return None
    ids = np.asarray(source.attrs["value"].numpy())
    if ids.ndim != 1 or not ids.size or ids[0] < 0 or (ids[1:] < ids[:-1]).any():
        return None
    return ids


def _count_segments(graph: Graph, node: Node, options: PassOptions) -> None:
    ids = _constant_ids(node)
    if ids is None:
        return
    count = np.asarray(int(ids[-1]) + 1, np.int64)
    const = options.host.ops.get("Const")
    constant = graph.add_node(
        unique_name(graph, f"{node.name}/num_segments", ()),
        const,
        (),
        # These keep it in the loop of the segment ids, if there is one.
        _control_inputs(graph, node.in_edges[2].src),
        const.with_defaults({"dtype": dtypes.int64, "value": TensorAttr(count, dtypes.int64)}),
    )
    new = graph.add_node(
        unique_name(graph, f"{node.name}/known", ()),
        options.host.ops.get(WITH_COUNT[node.op]),
        [*((edge.src, edge.src_output) for edge in node.in_edges), (constant, 0)],
        _control_inputs(graph, node),
        {**node.attrs, "Tnumsegments": dtypes.int64},
    )
    constant.assigned_device = new.assigned_device = node.assigned_device
    graph.replace_node(node, new)


def _keep_duplicates(graph: Graph, node: Node, options: PassOptions) -> None:
    """Replace a gradient by its rows if the optimizer sums the rows of equal indices."""
    unique = _reader_that_sums(node)
    if unique is None or _constant_ids(node) is None or is_overridden(unique, options):
        return
    grad, indices, ids, _ = node.in_edges
    new = graph.add_node(
        unique_name(graph, f"{node.name}/rows", ()),
        options.host.ops.get("_SegmentRows"),
        [(grad.src, grad.src_output), (ids.src, ids.src_output)],
        _control_inputs(graph, node),
        {
            "scale": SCALES[node.op],
            "T": node.attrs["T"],
            "Tsegmentids": node.attrs["Tsegmentids"],
        },
    )
    new.assigned_device = node.assigned_device
    graph.replace_input(unique, 0, indices.src, indices.src_output)
    graph.redirect(node, 0, new, 0)
    for edge in [edge for edge in node.out_edges if edge.is_control]:
        graph.remove_control_edge(edge)
        graph.add_control_edge(new, edge.dst)
    graph.withdraw([node])


def _reader_that_sums(node: Node) -> Node | None:
    """Return the `Unique` of an optimizer that deduplicates a gradient, or None."""
    rows, indices = _reader(node, 0), _reader(node, 1)
    if rows is None or indices is None or node.attrs["T"].name not in _SUMMED_IN_OWN_TYPE:
        return None
    total, unique = rows.dst, indices.dst
    if unique.op != "Unique" or total.op != "UnsortedSegmentSum" or rows.dst_input:
        return None
    segments = total.in_edges[1]
    return unique if (segments.src, segments.src_output) == (unique, 1) else None


def _reader(node: Node, output: int) -> Edge | None:
    """Return the only consumer edge of an output, or None."""
    edges = [edge for edge in node.out_edges if not edge.is_control and edge.src_output == output]
    return edges[0] if len(edges) == 1 else None


def _control_inputs(graph: Graph, node: Node) -> list[Node]:
    return [edge.src for edge in node.control_in_edges if edge.src is not graph.source]
