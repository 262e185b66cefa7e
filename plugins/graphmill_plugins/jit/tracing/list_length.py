"""Infer static lengths of lists and tensor arrays that grew in a loop."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.spi.graphs import is_argument
from graphmill_plugins.jit.analysis.trip_count import origin
from graphmill_plugins.jit.idioms.list_length import growth_of, is_array_write, length_after
from graphmill_plugins.jit.tracing.elements import Elements
from graphmill_plugins.jit.tracing.static_values import is_static

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi.graphs import FunctionBody
    from graphmill_plugins.jit.analysis.trip_count import TripCount
    from graphmill_plugins.jit.tracing.values import State


def with_static_lengths(
    body: FunctionBody,
    args: Sequence[Any],
    results: Sequence[Any],
    before: State,
    after: State,
    trips: TripCount,
) -> tuple[list[Any], State]:
    """Return a loop's results, with static lengths of lists and arrays if they can be inferred.

    Args:
        body: the body of the loop.
        args, results: the first and last values.
        before, after: the state.
        trips: the loop's trip count.
    """

    def counted(index: int, first: Any, last: Any) -> Any:
        if not (isinstance(first, Elements) and isinstance(last, Elements)):
            return last
        length = first.size if first.length is None else first.length
        if last.length is None or not (isinstance(length, int) or is_static(length)):
            return last
        static = length_after(body, index, int(length), args, trips)
        return last if static is None else replace(last, length=np.int32(static))

    values, state = list(results), dict(after)
    for index, (first, last) in enumerate(zip(args, results, strict=True)):
        if isinstance(last, Elements):
            values[index] = counted(index, first, last)
            continue
        array = _array(body, index, args)
        if array in state:
            state[array] = counted(index, before.get(array), state[array])
    return values, state


def _array(body: FunctionBody, index: int, args: Sequence[Any]) -> Any:
    """Return the tensor array that a body writes before it returns a flow, if it does."""
    change = growth_of(body, index)
    if change is None or not is_array_write(change):
        return None
    source = origin(change, 0)
    return args[source.attrs["index"]] if is_argument(source) else None
