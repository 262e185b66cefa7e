"""The attrs and connections of nodes, for `graphmill explain --node` and `--dot`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphmill.explain.plain import as_plain
from graphmill.graph.node import tensor_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from graphmill.explain.step import NodeRecord
    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node

_COLOURS = {"compiled": "#9bd8c1", "straight-line": "#a9cdf2", "interpreted": "#f2d2a5"}


@dataclass(frozen=True, slots=True)
class NodeDetails:
    """A node's attrs and connections.

    Attributes:
        node: its name.
        attrs: its attrs as text, by name.
        inputs: the tensors that it takes, in order; `^node` for control inputs.
        outputs: the element type of each output.
        consumers: the nodes that take its outputs, or wait for it (`^node`), each once.
    """

    node: str
    attrs: dict[str, str]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    consumers: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        plain: dict[str, Any] = as_plain(self)
        return plain


def node_details(node: Node) -> NodeDetails:
    """Return the attrs and the connections of a node in its graph."""
    source = node.graph.source
    consumers = (
        f"^{edge.dst.name}" if edge.is_control else edge.dst.name for edge in node.out_edges
    )
    edges = [*node.in_edges, *(edge for edge in node.control_in_edges if edge.src is not source)]
    return NodeDetails(
        node.name,
        {name: str(value) for name, value in node.attrs.items()},
        tuple(tensor_name(edge.src.name, edge.src_output) for edge in edges),
        tuple(dtype.name for dtype in node.output_types),
        tuple(dict.fromkeys(consumers)),
    )


def dot_lines(graph: Graph, records: Iterable[NodeRecord]) -> Iterator[str]:
    """Yield a graph in Graphviz's DOT language, with its name scopes as clusters.

    Args:
        graph: the graph.
        records: the records of its nodes, whose tiers choose their colours.
    """
    tiers = {record.node: record.tier for record in records}
    nodes = sorted(graph.nodes, key=lambda node: node.name.split("/")[:-1])
    yield "digraph graphmill {"
    yield '  node [shape=box, style="rounded,filled", fontname="sans-serif", fillcolor="#eeeeee"];'
    open_scopes: list[str] = []
    for node in nodes:
        scopes = node.name.split("/")[:-1]
        common = _common_length(open_scopes, scopes)
        yield from ("  " * depth + "}" for depth in range(len(open_scopes), common, -1))
        for depth in range(common, len(scopes)):
            indent = "  " * (depth + 1)
            name = _quoted("cluster_" + "/".join(scopes[: depth + 1]))
            yield f"{indent}subgraph {name} {{ label={_quoted(scopes[depth])};"
        open_scopes = scopes
        colour = _COLOURS.get(tiers.get(node.name, ""))
        fill = f", fillcolor={_quoted(colour)}" if colour else ""
        label = f"{node.name.rpartition('/')[2]}\n{node.op}"
        yield "  " * (len(scopes) + 1) + f"{_quoted(node.name)} [label={_quoted(label)}{fill}];"
    yield from ("  " * depth + "}" for depth in range(len(open_scopes), 0, -1))
    for node in nodes:
        for edge in (*node.in_edges, *node.control_in_edges):
            if edge.src is not graph.source:
                style = " [style=dashed]" if edge.is_control else ""
                yield f"  {_quoted(edge.src.name)} -> {_quoted(node.name)}{style};"
    yield "}"


def _common_length(one: Sequence[str], other: Sequence[str]) -> int:
    length = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        length += 1
    return length


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
