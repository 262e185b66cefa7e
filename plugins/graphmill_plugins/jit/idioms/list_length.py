"""Infer the length of a list or tensor array after the loop in which it grows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill.spi.graphs import is_argument
from graphmill_plugins.jit.analysis import trip_count
from graphmill_plugins.jit.analysis.trip_count import is_argument_at, origin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import Node
    from graphmill.spi.graphs import FunctionBody
    from graphmill_plugins.jit.analysis.trip_count import TripCount

_CHANGES: Final = {"TensorListPushBack": 0, "TensorListSetItem": 0, "TensorArrayWriteV3": 3}
"""Ops that append to a list or array, and their input that is the list or the array's flow."""


def length_after(
    body: FunctionBody, index: int, length: int, args: Sequence[Any], trips: TripCount
) -> int | None:
    """Return the number of elements of a list or array after a loop, if it is static.

    Args:
        body: the body of the loop.
        index: position of the list, or of the array's flow, among the loop's arguments.
        length: its length before the loop.
        args: the first values; NumPy arrays if they are static.
        trips: the loop's trip count.
    """
    change = growth_of(body, index)
    if change is None or not trips.is_exact:
        return None
    if change.op == "TensorListPushBack":
        return length + trips.maximum
    counter = origin(change, 1)
    if not is_argument(counter) or not trips.maximum:
        return None
    start = trip_count.number(args[counter.attrs["index"]])
    step = trip_count.step(body, counter.attrs["index"])
    if start is None or step is None:
        return None
    return max(length, start + 1, start + (trips.maximum - 1) * step + 1)


def growth_of(body: FunctionBody, index: int) -> Node | None:
    """Return the node that appends to a list or array in each iteration of a body."""
    returned = trip_count.result(body, index)
    change = None if returned is None else origin(returned, 0)
    chained = None if change is None else _CHANGES.get(change.op)
    if change is None or chained is None:
        return None
    return change if is_argument_at(origin(change, chained), index) else None


def is_array_write(growth: Node) -> bool:
    """Return whether the growing value is a tensor array, not a list."""
    return growth.op == "TensorArrayWriteV3"
