"""How long lists and tensor arrays are after the loop that they grow in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill_plugins.jit.tracing import loop_shape
from graphmill_plugins.jit.tracing.elements import Elements, is_known
from graphmill_plugins.jit.tracing.loop_shape import is_argument, origin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.graph.function_body import FunctionBody
    from graphmill.graph.node import Node
    from graphmill_plugins.jit.tracing.loop_shape import Turns
    from graphmill_plugins.jit.tracing.values import State

_CHANGES: Final = {"TensorListPushBack": 0, "TensorListSetItem": 0, "TensorArrayWriteV3": 3}
"""What makes a list or array longer, and which input it hands on: the list, or the array's flow."""


def length_after(
    body: FunctionBody, index: int, length: int, args: Sequence[Any], turns: Turns
) -> int | None:
    """Return how many elements a list or array has after a loop, if that is known.

    Args:
        body: of the loop.
        index: which of the loop's arguments the list is, or the flow of the array.
        length: how many it has before.
        args: the first values, NumPy arrays where they are known.
        turns: how often the loop turns.
    """
    change = _change(body, index)
    if change is None or not turns.is_exact:
        return None
    if change.op == "TensorListPushBack":
        return length + turns.most
    counter = origin(change, 1)
    if counter.op != "_Arg" or not turns.most:
        return None
    start = loop_shape.number(args[counter.attrs["index"]])
    step = loop_shape.step(body, counter.attrs["index"])
    if start is None or step is None:
        return None
    return max(length, start + 1, start + (turns.most - 1) * step + 1)


def with_known_lengths(
    body: FunctionBody,
    args: Sequence[Any],
    results: Sequence[Any],
    before: State,
    after: State,
    turns: Turns,
) -> tuple[list[Any], State]:
    """Return what a loop gives, its lists and arrays with the lengths that they have for sure.

    Args:
        body: of the loop.
        args, results: the first and last values.
        before, after: the state.
        turns: how often it turns.
    """

    def counted(index: int, first: Any, last: Any) -> Any:
        if not (isinstance(first, Elements) and isinstance(last, Elements)):
            return last
        length = first.size if first.length is None else first.length
        if last.length is None or not (isinstance(length, int) or is_known(length)):
            return last
        known = length_after(body, index, int(length), args, turns)
        return last if known is None else replace(last, length=np.int32(known))

    found, state = list(results), dict(after)
    for index, (first, last) in enumerate(zip(args, results, strict=True)):
        if isinstance(last, Elements):
            found[index] = counted(index, first, last)
            continue
        array = _array(body, index, args)
        if array in state:
            state[array] = counted(index, before.get(array), state[array])
    return found, state


def _array(body: FunctionBody, index: int, args: Sequence[Any]) -> Any:
    """Return the tensor array that a body writes into before it returns a flow, if it does."""
    change = _change(body, index)
    if change is None or change.op != "TensorArrayWriteV3":
        return None
    source = origin(change, 0)
    return args[source.attrs["index"]] if source.op == "_Arg" else None


def _change(body: FunctionBody, index: int) -> Node | None:
    """Return what makes a list longer, or the array of a flow, if a body does so once a turn."""
    returned = loop_shape.result(body, index)
    change = None if returned is None else origin(returned, 0)
    chained = None if change is None else _CHANGES.get(change.op)
    if change is None or chained is None:
        return None
    return change if is_argument(origin(change, chained), index) else None
