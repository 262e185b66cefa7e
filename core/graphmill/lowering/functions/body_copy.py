"""`BodyCopy`: copy a function's body into the graph that calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.graph.node_roles import is_argument, is_argument_or_result, is_result
from graphmill.lowering.policies.node_effects import effects_of_node

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.graph.functions.function_body import FunctionBody
    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.lowering.passes import PassOptions


def free_name_in(graph: Graph, scope: str, name: str) -> str:
    """Return an unused node name in a scope of a graph."""
    full = f"{scope}/{name}"
    while graph.has_node(full):
        full += "_"
    return full


class BodyCopy:
    """A copy of a function's body.

    Args:
        graph: the graph that the body is copied into.
        scope: the prefix of the copies' names.
        body: the body.
        args: the value of each argument: a node of the graph and an output of it.
        before: gets a control edge to each node without inputs in the body, so that the whole copy
            waits for it and is dead if it is dead; None for none.
        request: returns the device requested for the copy of a node.

    Attributes:
        nodes: the copies by the nodes of the body.
        results: the node and output of each result.
    """

    def __init__(
        self,
        graph: Graph,
        scope: str,
        body: FunctionBody,
        args: Sequence[tuple[Node, int]],
        before: Node | None,
        request: Callable[[Node], str],
    ) -> None:
        self.graph = graph
        self.body = body
        self.args = args
        self.before = before
        inner = [node for node in body.graph.nodes if not is_argument_or_result(node)]
        self.nodes: dict[Node, Node] = {
            node: graph.add_unconnected(
                free_name_in(graph, scope, node.name), node.op_def, node.attrs, request(node)
            )
            for node in inner
        }
        for node in inner:
            self._connect(node)
        self.results = self._results()

    def effects(self, options: PassOptions) -> list[Node]:
        """Return the copies that have effects, and so must run before the call is done."""
        copies = [self.nodes[node] for node in self.body.control_rets]
        copies.extend(
            copy
            for copy in self.nodes.values()
            if copy.op_def.is_stateful or effects_of_node(copy, options)
        )
        return list(dict.fromkeys(copies))

    def _connect(self, node: Node) -> None:
        copy = self.nodes[node]
        for position, edge in enumerate(node.in_edges):
            src, output = self._source(edge.src, edge.src_output)
            self.graph.add_edge(src, output, copy, position)
        control = [edge.src for edge in node.control_in_edges if edge.src in self.nodes]
        self.graph.add_control_edges([self.nodes[src] for src in control], copy)
        if self.before is not None and not node.in_edges and not control:
            self.graph.add_control_edge(self.before, copy)

    def _source(self, node: Node, output: int) -> tuple[Node, int]:
        if is_argument(node):
            index: int = node.attrs["index"]
            return self.args[index]
        return self.nodes[node], output

    def _results(self) -> list[tuple[Node, int]]:
        results: dict[int, tuple[Node, int]] = {}
        for node in self.body.graph.nodes:
            if is_result(node):
                edge = node.in_edges[0]
                results[node.attrs["index"]] = self._source(edge.src, edge.src_output)
        return [results[index] for index in range(len(results))]
