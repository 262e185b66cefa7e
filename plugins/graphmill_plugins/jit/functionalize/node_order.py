"""`NodeOrder`: a topological order that remains valid while regions are replaced by nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi import topological_order
from graphmill.spi.graphs import is_back_edge
from graphmill_plugins.jit.functionalize.liveness import forward_inputs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.spi import Graph, Node


class NodeOrder:
    """Positions of a graph's nodes: smaller than those of their consumers, except for back edges.

    The order is computed when it is first needed. A node that replaces others is placed between its
    inputs and its consumers; where that is not possible, the order is computed again.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._positions: dict[Node, float] | None = None

    def positions(self) -> dict[Node, float]:
        """Return the position of each node; also of nodes that were removed.

        Raises:
            InvalidArgumentError: the graph has a cycle that is not a loop.
        """
        if self._positions is None:
            order = topological_order(self._graph)
            self._positions = {node: float(index) for index, node in enumerate(order)}
        return self._positions

    def add(self, nodes: Iterable[Node]) -> None:
        """Place nodes that were added to the graph, and connected, in place of others."""
        for node in nodes:
            positions = self._positions
            if positions is None:
                return
            before = [edge.src for edge in forward_inputs(node)]
            after = [edge.dst for edge in node.out_edges if not is_back_edge(edge)]
            after = [one for one in after if one is not self._graph.sink]
            if not all(one in positions for one in (*before, *after)):
                self._positions = None
                return
            first = max((positions[one] for one in before), default=-1.0)
            last = min((positions[one] for one in after), default=first + 2)
            position = (first + last) / 2
            if not first < position < last:
                self._positions = None
                return
            positions[node] = position
