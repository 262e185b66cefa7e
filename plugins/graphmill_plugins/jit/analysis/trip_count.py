"""Infer the trip count and loop invariants of a `While` before it is traced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from graphmill.spi import Arithmetic
from graphmill.spi.graphs import calls_of, is_argument, is_constant, is_loop_cond, is_result

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import Edge, FuncAttr, Node
    from graphmill.spi.graphs import FunctionBody

    BodyProvider: TypeAlias = "Callable[[FuncAttr], FunctionBody]"

# The trip count if a counter starts at `a`, grows by `s` and is limited by `b`.
_TRIPS: Final[dict[Arithmetic, Callable[[int, int, int], int]]] = {
    Arithmetic.LESS: lambda a, b, s: -((a - b) // s),
    Arithmetic.LESS_EQUAL: lambda a, b, s: (b - a) // s + 1,
}


def pass_through(body: FunctionBody) -> frozenset[int]:
    """Return the arguments that a body returns unchanged at the same position."""
    unchanged = set()
    for node in body.graph.nodes:
        if is_result(node):
            source = origin(node, 0)
            if is_argument(source) and source.attrs["index"] == node.attrs["index"]:
                unchanged.add(source.attrs["index"])
    return frozenset(unchanged)


class TripCount(NamedTuple):
    """The trip count of a loop.

    Attributes:
        maximum: the maximum number of iterations.
        is_exact: whether the loop always makes that many.
    """

    maximum: int
    is_exact: bool


def trip_count_of(
    cond: FunctionBody, body: FunctionBody, args: Sequence[Any], bodies: BodyProvider
) -> TripCount | None:
    """Return the trip count of a loop if a static counter and limit determine it.

    Args:
        cond: its condition; it must compare a counter with a limit, alone or in a conjunction.
        body: its body; it must add a constant to the counter.
        args: the first values; NumPy arrays if they are static.
        bodies: returns the bodies of functions that the condition calls.
    """
    results = _results(cond)
    if len(results) != 1:
        return None
    invariant = pass_through(body)
    bounds: list[int] = []
    is_exact = True
    pending = [origin(results[0], 0)]
    while pending:
        node = pending.pop()
        arithmetic = node.op_def.traits.arithmetic
        if arithmetic is Arithmetic.LOGICAL_AND:
            pending += [origin(node, 0), origin(node, 1)]
            continue
        bound = _trips(node, body, args, invariant) if arithmetic in _TRIPS else None
        if bound is not None:
            bounds.append(bound)
            continue
        is_exact = False  # the loop may end earlier, for another reason
        if _is_predicated(node) and _is_false_without(node, bodies):
            pending.append(origin(node, 0))
    return TripCount(min(bounds), is_exact) if bounds else None


def _is_predicated(node: Node) -> bool:
    """Return whether a node selects one of two functions by a predicate."""
    attrs = {call.attr for call in node.op_def.calls}
    return node.op_def.traits.is_conditional and len(attrs) == 2


def _is_false_without(node: Node, bodies: BodyProvider) -> bool:
    """Return whether a conditional returns false if its predicate is false.

    AutoGraph converts Python's `and` to such a conditional, which returns its predicate then.
    """
    results = _results(bodies(calls_of(node)[1].function))
    if len(results) != 1:
        return False
    source = origin(results[0], 0)
    if is_constant(source):
        return not np.any(source.attrs["value"].numpy())
    if not is_argument(source):
        return False
    argument = node.in_edges[1 + source.attrs["index"]]
    return computed_at(argument) == computed_at(node.in_edges[0])


def _trips(
    test: Node, body: FunctionBody, args: Sequence[Any], invariant: frozenset[int]
) -> int | None:
    counter, limit = origin(test, 0), origin(test, 1)
    if not is_argument(counter):
        return None
    index = counter.attrs["index"]
    start, added = number(args[index]), step(body, index)
    last = _static_int(limit, args, invariant)
    if start is None or last is None or added is None or added <= 0:
        return None
    return max(_TRIPS[test.op_def.traits.arithmetic](start, last, added), 0)


def step(body: FunctionBody, index: int) -> int | None:
    """Return the number that a body adds to an argument in each iteration, if it is constant."""
    returned = result(body, index)
    added = None if returned is None else origin(returned, 0)
    if added is None or added.op_def.traits.arithmetic is not Arithmetic.ADD:
        return None
    for position in (0, 1):
        source = origin(added, position)
        if is_argument_at(source, index):
            return _static_int(origin(added, 1 - position), (), frozenset())
    return None


def _static_int(node: Node, args: Sequence[Any], invariant: frozenset[int]) -> int | None:
    if is_constant(node):
        return number(node.attrs["value"].numpy())
    if is_argument(node) and node.attrs["index"] in invariant:
        return number(args[node.attrs["index"]])
    return None


def number(value: Any) -> int | None:
    """Return a value as an integer if it is a static integer."""
    is_static = isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "iu"
    return int(value) if is_static and value.size == 1 else None


def is_argument_at(node: Node, index: int) -> bool:
    """Return whether a node is the argument at a position of its body."""
    return is_argument(node) and bool(node.attrs["index"] == index)


def result(body: FunctionBody, index: int) -> Node | None:
    """Return the node of the result at a position of a body."""
    return next((node for node in _results(body) if node.attrs["index"] == index), None)


def _results(body: FunctionBody) -> list[Node]:
    return [node for node in body.graph.nodes if is_result(node)]


def origin(node: Node, position: int) -> Node:
    """Return the node that computes an input, past nodes that only forward or validate it."""
    return computed_at(node.in_edges[position])[0]


def computed_at(edge: Edge) -> tuple[Node, int]:
    """Return the node and output that compute the value of an edge; see `origin`."""
    while True:
        source, output = edge.src, edge.src_output
        traits = source.op_def.traits
        if not (traits.forwards or traits.validates or is_loop_cond(source)):
            return source, output
        edge = source.in_edges[output]
