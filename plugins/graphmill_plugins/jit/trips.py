"""How often a loop turns at most, where that can be seen from a counter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill_plugins.jit.control_flow import is_known

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.graph.node import Node
    from graphmill_plugins.jit.routine import Routine

_PASSED_ON: Final = frozenset({"Identity", "LoopCond"})


def trip_count(test: Routine, body: Routine, args: Sequence[Any]) -> int | None:
    """Return how often a loop turns at most; None if that cannot be told.

    It can where the condition is, or is the conjunction of something and, `i < limit`, with a
    counter that starts at a known number and grows by a known one, and a known limit that stays.
    """
    found = [
        count
        for less in _conjuncts(_origin(*test.results[0]))
        if (count := _turns_of(less, test, body, args)) is not None
    ]
    return min(found, default=None)


def _conjuncts(node: Node) -> list[Node]:
    """Return the comparisons all of which must hold."""
    found, pending = [], [node]
    while pending:
        node = pending.pop()
        if node.op == "LogicalAnd":
            pending.extend(_origin(*source) for source in node.inputs)
        elif node.op in ("Less", "LessEqual"):
            found.append(node)
    return found


def _turns_of(less: Node, test: Routine, body: Routine, args: Sequence[Any]) -> int | None:
    counter, limit = (_origin(*source) for source in less.inputs)
    if counter.op != "_Arg":
        return None
    index = test.args.index(counter)
    start, end = args[index], _value(limit, test, args, body.invariant())
    step = _step(index, body, args)
    if not is_known(start) or end is None or step is None or step <= 0:
        return None
    span = int(end) - int(start) + (less.op == "LessEqual")
    return max(0, -(-span // step))


def _step(index: int, body: Routine, args: Sequence[Any]) -> int | None:
    """Return by how much a turn lets a counter grow."""
    node = _origin(*body.results[index])
    if node.op not in ("Add", "AddV2"):
        return None
    first, second = (_origin(*source) for source in node.inputs)
    if first is not body.args[index]:
        first, second = second, first
    if first is not body.args[index]:
        return None
    value = _value(second, body, args, body.invariant())
    return None if value is None else int(value)


def _value(
    node: Node, routine: Routine, args: Sequence[Any], invariant: frozenset[int]
) -> Any | None:
    """Return the known integer that a node gives in each turn."""
    if node.op == "Const":
        value = node.attrs["value"].numpy()
    elif node.op == "_Arg" and routine.args.index(node) in invariant:
        value = args[routine.args.index(node)]
    else:
        return None
    is_integer = is_known(value) and value.dtype.kind in "iu" and value.size == 1
    return value if is_integer else None


def _origin(node: Node, output: int) -> Node:
    del output  # of all that is followed here, each has only one
    while node.op in _PASSED_ON:
        node = node.in_edges[0].src
    return node
