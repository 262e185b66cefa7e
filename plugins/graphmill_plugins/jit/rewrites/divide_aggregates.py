"""Combine many inputs step by step, so that few values are needed at once.

A large cluster becomes several programs. A node that combines a thousand inputs (a sum of as many
branches) needs all of them at once: the programs of the branches would return each one, and the
last program would take them. Returning a small value and passing it on costs some microseconds. If
partial results are combined, each program passes one value to the next.

The inputs are divided as TensorFlow's kernels divide them, eight each and the rest first, so sums
are rounded as before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill.spi.passes import is_overridden
from graphmill_plugins.jit.clustering.eligibility import Eligibility
from graphmill_plugins.jit.ir.unique_name import unique_name

if TYPE_CHECKING:
    from graphmill.spi import Graph, Node
    from graphmill.spi.passes import PassOptions

_MIN_INPUTS: Final = 64
_GROUP: Final = 8


def divide_aggregates(graph: Graph, options: PassOptions) -> None:
    """Replace each node that combines many inputs by nodes that combine a few each."""
    eligibility = Eligibility(options.host)
    for node in [one for one in graph.nodes if _is_wide_aggregate(one)]:
        if not is_overridden(node, options) and eligibility.why_not(node) is None:
            graph.replace_node(node, _divided(graph, node))


def _is_wide_aggregate(node: Node) -> bool:
    """Return whether a node combines many inputs, and its op takes any number of only these."""
    op_def = node.op_def
    is_list = len(op_def.input_args) == 1 and bool(op_def.input_args[0].number_attr)
    return op_def.is_aggregate and is_list and len(node.in_edges) >= _MIN_INPUTS


def _divided(graph: Graph, node: Node) -> Node:
    """Add the nodes that compute a node's result, and return the last."""
    inputs = [(edge.src, edge.src_output) for edge in node.in_edges]
    rest = len(inputs) % _GROUP
    end = rest if rest > 1 else rest + _GROUP
    total = _combined(graph, node, "first", inputs[:end])
    for start in range(end, len(inputs), _GROUP):
        part = _combined(graph, node, f"part_{start}", inputs[start : start + _GROUP])
        total = _combined(graph, node, f"total_{start}", [(total, 0), (part, 0)])
    return total


def _combined(graph: Graph, node: Node, name: str, inputs: list[tuple[Node, int]]) -> Node:
    (argument,) = node.op_def.input_args
    attrs: dict[str, Any] = {**node.attrs, argument.number_attr: len(inputs)}
    before = [edge.src for edge in node.control_in_edges if edge.src is not graph.source]
    new = graph.add_node(
        unique_name(graph, f"{node.name}/{name}", ()), node.op_def, inputs, before, attrs
    )
    new.assigned_device = node.assigned_device
    return new
