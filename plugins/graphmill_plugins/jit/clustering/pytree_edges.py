"""Find the edges that carry pytrees, which programs can take and return.

A kernel declares that its variants are pytrees (`pytrees=` of `@kernel`). Functions, conditionals,
loops and identities forward them. So an edge carries a pytree if its source returns one or its
target takes one, past forwarding nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from graphmill.errors import OpError
from graphmill.spi import CallKind
from graphmill.spi.graphs import calls_of, is_argument, is_result
from graphmill_plugins.jit.ir.handles import VARIANT

if TYPE_CHECKING:
    from graphmill.spi import Edge, Node
    from graphmill.spi.graphs import CalledFunction, FunctionBody
    from graphmill_plugins.jit.ir.lowering_choices import LoweringChoices

    _Seen: TypeAlias = frozenset[tuple[str, int]]

_LOOP: Final = (CallKind.LOOP_CONDITION, CallKind.LOOP_BODY)


class PytreeEdges:
    """Finds the edges of one graph that carry pytrees; caches the declarations of kernels.

    Args:
        choices: returns the kernels of nodes and the bodies of functions that they call.
    """

    def __init__(self, choices: LoweringChoices) -> None:
        self._choices = choices
        self._declared: dict[Node, bool] = {}

    def carries(self, edge: Edge) -> bool:
        """Return whether the value on an edge is a pytree."""
        if edge.src.output_types[edge.src_output].base_dtype.name != VARIANT:
            return False
        none: _Seen = frozenset()
        return self._is_returned(edge.src, edge.src_output, none) or self._is_taken(edge, none)

    def _declares(self, node: Node) -> bool:
        declared = self._declared.get(node)
        if declared is None:
            is_plain = not (is_argument(node) or is_result(node))
            declared = self._declared[node] = is_plain and self._choices.takes_pytrees(node)
        return declared

    def _is_returned(self, node: Node, output: int, seen: _Seen) -> bool:
        """Return whether the kernels that an output comes from declare it a pytree."""
        if self._declares(node):
            return True
        if node.op_def.traits.forwards and node.in_edges:
            return self._is_returned(*node.sources[min(output, len(node.sources) - 1)], seen)
        for called in calls_of(node):
            if called.kind in _LOOP:
                position = called.call.first_input + output
                if self._is_returned(*node.sources[position], seen):
                    return True
            key = called.function.name, output
            body = None if key in seen else self._body(node, called)
            for result in body.graph.nodes if body is not None else ():
                is_it = is_result(result) and result.attrs["index"] == output
                if is_it and self._is_returned(*result.sources[0], seen | {key}):
                    return True
        return False

    def _is_taken(self, edge: Edge, seen: _Seen) -> bool:
        """Return whether a consumer of an edge's value takes it as a pytree."""
        node = edge.dst
        if self._declares(node):
            return True
        if node.op_def.traits.forwards:
            return any(self._is_taken(after, seen) for after in node.out_edges if _is_data(after))
        for called in calls_of(node):
            index = edge.dst_input - called.call.first_input
            key = called.function.name, index
            body = None if key in seen else self._body(node, called)
            for arg in body.graph.nodes if body is not None else ():
                if is_argument(arg) and arg.attrs["index"] == index:
                    after = [inner for inner in arg.out_edges if _is_data(inner)]
                    if any(self._is_taken(inner, seen | {key}) for inner in after):
                        return True
        return False

    def _body(self, node: Node, called: CalledFunction) -> FunctionBody | None:
        try:
            return self._choices.bodies(called.function, node.graph.library)
        except OpError:  # the function is missing, which its call reports
            return None


def _is_data(edge: Edge) -> bool:
    return not edge.is_control
