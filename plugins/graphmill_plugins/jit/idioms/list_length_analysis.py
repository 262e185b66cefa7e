"""Find lists and tensor arrays that grow in loops, and whether their length is static.

The trip count of a loop that may end early is known only after it has run. The stacked elements of
a list that grew in it become an output of the program, and their consumers go to another cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from graphmill.errors import OpError
from graphmill.spi import CallKind, FuncAttr
from graphmill.spi.graphs import calls_of, is_constant, without_forwarding
from graphmill.spi.passes import is_switched_off
from graphmill_plugins.jit.analysis.trip_count import origin, trip_count_of
from graphmill_plugins.jit.idioms.list_length import length_after
from graphmill_plugins.jit.ir.lowering_choices import followed_functions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from graphmill.spi import Node
    from graphmill.spi.graphs import FunctionBody
    from graphmill_plugins.jit.ir.function_bodies import BodyProvider


class _Stacking(NamedTuple):
    """The list that an op stacks, and the op that appends to it."""

    position: int
    ops: frozenset[str]


_STACKS: Final = {
    "TensorListStack": _Stacking(0, frozenset({"TensorListSetItem", "TensorListPushBack"})),
    "TensorArrayGatherV3": _Stacking(2, frozenset({"TensorArrayWriteV3"})),
}
NAME: Final = "jit_list_length"
"""A name for `GRAPHMILL_DISABLE_PASSES`, which keeps loops with such lists outside of programs."""
_MAX_SOURCES: Final = 64  # the gradient of a sum has about ten
_PLACEHOLDER: Final = np.int32(1)  # for an integer that is static once shapes are


class ListLengthAnalysis:
    """Analyses the lists and tensor arrays of a graph before shapes are known.

    Args:
        bodies: returns the bodies of called functions.
    """

    def __init__(self, bodies: BodyProvider) -> None:
        self._bodies = bodies

    def stacks_dynamic_list(self, node: Node) -> bool:
        """Return whether a node stacks a list whose length is dynamic."""
        grows = _STACKS.get(node.op)
        if (
            grows is None
            or is_switched_off(NAME)
            or not (node.op == "TensorListStack" or _is_all_of_growing(node))
        ):
            return False
        edge = node.in_edges[grows.position]
        loop, index = without_forwarding(edge.src, edge.src_output)
        if not loop.op_def.is_while:
            return False
        try:
            return self._has_dynamic_length(loop, index, grows.ops)
        except OpError:
            return False  # the loop cannot be in a cluster either

    def _has_dynamic_length(self, loop: Node, index: int, ops: Collection[str]) -> bool:
        """Return whether a loop result may grow by an unknown number of elements."""
        library = loop.graph.library

        def called(attr: FuncAttr) -> FunctionBody:
            return self._bodies(FuncAttr(attr.name), library)

        of_kind = {call.kind: call.function for call in calls_of(loop)}
        body = called(of_kind[CallKind.LOOP_BODY])
        if not any(_grows(node) for node in _nodes(body, called) if node.op in ops):
            return False
        args = _first_values(loop)
        trips = trip_count_of(called(of_kind[CallKind.LOOP_CONDITION]), body, args, called)
        return trips is None or length_after(body, index, 0, args, trips) is None


def _is_all_of_growing(gather: Node) -> bool:
    """Return whether all elements are gathered from a tensor array that may grow."""
    array, indices = origin(gather, 0), origin(gather, 1)
    if array.op != "TensorArrayV3" or not array.attrs["dynamic_size"]:
        return False
    return indices.op == "Range" and origin(indices, 1).op == "TensorArraySizeV3"


def _nodes(body: FunctionBody, called: Callable[[FuncAttr], FunctionBody]) -> Iterator[Node]:
    """Yield the nodes of a body and of the functions it calls."""
    pending = [body]
    seen: set[str] = set()
    while pending:
        for node in pending.pop().graph.nodes:
            yield node
            fresh = [attr for attr in followed_functions(node) if attr.name not in seen]
            seen.update(attr.name for attr in fresh)
            pending += map(called, fresh)


def _grows(node: Node) -> bool:
    return node.op != "TensorListSetItem" or bool(node.attrs["resize_if_index_out_of_bounds"])


def _first_values(loop: Node) -> list[Any]:
    """Return the initial values of a loop that are static; None for others."""
    return [_static_value(origin(loop, index)) for index in range(len(loop.in_edges))]


def _static_value(source: Node) -> Any:
    if is_constant(source):
        return source.attrs["value"].numpy()
    return _PLACEHOLDER if are_of_shapes([source]) else None


def are_of_shapes(sources: list[Node]) -> bool:
    """Return whether the outputs of nodes depend only on shapes and constants."""
    pending = list(sources)
    seen = set(pending)
    while pending:
        source = pending.pop()
        if is_constant(source) or source.op_def.traits.shape_only:
            continue
        if not source.in_edges or len(seen) > _MAX_SOURCES:
            return False
        fresh = [edge.src for edge in source.in_edges if edge.src not in seen]
        seen.update(fresh)
        pending.extend(fresh)
    return True
