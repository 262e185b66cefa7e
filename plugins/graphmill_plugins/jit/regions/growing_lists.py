"""Lists that grow in loops: whether a program has room for them, and knows how long they become.

A list grows where an element is set behind its end, or pushed. A program has room for as many
elements as the loop makes turns at most, so that must be known when it is traced. How many turns a
loop makes that may end early, only the program finds out: what is stacked of its list leaves the
program, and who reads it is in another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.errors import OpError
from graphmill.graph.function_body import instantiate_function
from graphmill_plugins.jit.tracing.loop_shape import (
    grows_where_it_sets,
    length_after,
    origin,
    turns_of,
)
from graphmill_plugins.jit.tracing.traced_ops import calls_of

if TYPE_CHECKING:
    from graphmill.graph.function_body import FunctionBody
    from graphmill.graph.node import Node
    from graphmill.ops.attr_types import FuncAttr
    from graphmill.ops.op_registry import OpRegistry
    from graphmill_plugins.jit.tracing.loop_shape import Turns

LOOPS: Final = frozenset({"While", "StatelessWhile"})
_STACKS: Final = frozenset({"TensorListStack"})
_OF_SHAPES: Final = frozenset({"Const", "Shape", "ShapeN", "Size", "Rank"})
_MOST_SOURCES: Final = 64  # those of the gradient of a sum are about ten
_SOME_NUMBER: Final = np.int32(1)  # in the place of one that is known once shapes are


class GrowingLists:
    """Answers for the loops of a graph, as far as can be told before shapes are known.

    Args:
        ops: what the nodes of functions are made with.
    """

    def __init__(self, ops: OpRegistry) -> None:
        self._ops = ops

    def has_room(self, loop: Node) -> bool:
        """Return whether lists that grow in a loop where elements are set have room in a program.

        Raises:
            OpError: the loop's functions cannot be had.
        """
        body = self._body(loop, "body")
        return not self._grows(body) or self._turns(loop, body) is not None

    def gives_some_rows(self, node: Node) -> bool:
        """Return whether a node stacks a list whose length only the program finds out."""
        if node.op not in _STACKS:
            return False
        edge = node.in_edges[0]
        while edge.src.op == "Identity":
            edge = edge.src.in_edges[0]
        if edge.src.op not in LOOPS:
            return False
        try:
            return not self._is_length_known(edge.src, edge.src_output)
        except OpError:
            return False  # nor can the loop be in a cluster

    def _is_length_known(self, loop: Node, index: int) -> bool:
        body = self._body(loop, "body")
        if not self._grows(body, pushed=True):
            return True
        turns = self._turns(loop, body)
        return turns is not None and (
            length_after(body, index, 0, _first_values(loop), turns) is not None
        )

    def _turns(self, loop: Node, body: FunctionBody) -> Turns | None:
        cond = self._body(loop, "cond")
        library = loop.graph.library
        return turns_of(cond, body, _first_values(loop), lambda attr: self._called(attr, library))

    def _body(self, loop: Node, attr: str) -> FunctionBody:
        return self._called(loop.attrs[attr], loop.graph.library)

    def _called(self, attr: FuncAttr, library: Any) -> FunctionBody:
        return instantiate_function(attr.name, {}, library, self._ops)

    def _grows(self, body: FunctionBody, *, pushed: bool = False) -> bool:
        """Return whether a list grows in a body or in what it calls."""
        pending, seen = [body], set()
        while pending:
            for node in pending.pop().graph.nodes:
                if grows_where_it_sets(node) or (pushed and node.op == "TensorListPushBack"):
                    return True
                for attr in calls_of(node):
                    if attr.name not in seen:
                        seen.add(attr.name)
                        pending.append(self._called(attr, node.graph.library))
        return False


def _first_values(loop: Node) -> list[Any]:
    """Return the first values of a loop that are known when it is traced; None for others."""
    return [_known(origin(loop, place)) for place in range(len(loop.in_edges))]


def _known(source: Node) -> Any:
    if source.op == "Const":
        return source.attrs["value"].numpy()
    return _SOME_NUMBER if are_of_shapes([source]) else None


def are_of_shapes(sources: list[Node]) -> bool:
    """Return whether what some nodes give follows from shapes and constants alone."""
    pending = list(sources)
    seen = set(pending)
    while pending:
        source = pending.pop()
        if source.op in _OF_SHAPES:
            continue
        if not source.in_edges or len(seen) > _MOST_SOURCES:
            return False
        fresh = [edge.src for edge in source.in_edges if edge.src not in seen]
        seen.update(fresh)
        pending.extend(fresh)
    return True
