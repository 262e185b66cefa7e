"""Trace the sizes of lists and tensor arrays that grew.

To stack a v1 tensor array, a graph gathers its elements with the indices `Range(0, size)`. If the
size is dynamic, the result is the first part of a range over the array's capacity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill_plugins.jit.tracing.elements import Elements, FirstRows
from graphmill_plugins.jit.tracing.static_values import is_static

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import Node
    from graphmill_plugins.jit.tracing.values import State


class Counts:
    """The capacities by traced sizes; sizes are compared by identity and stay referenced."""

    def __init__(self) -> None:
        self._capacities: dict[int, tuple[Any, int]] = {}

    def note(self, counted: Any, count: Any, state: State) -> None:
        """Record the capacity of the list whose size is this value."""
        elements = counted if isinstance(counted, Elements) else state[counted]
        if count is elements.length and not is_static(count):
            self._capacities[id(count)] = count, elements.size

    def range_to(self, node: Node, inputs: Sequence[Any]) -> FirstRows | None:
        """Return the result of a `Range` from 0 to a traced list size; None for other ranges."""
        start, limit, delta = inputs
        capacity = self._capacities.get(id(limit))
        is_all = is_static(start) and is_static(delta) and not start and delta == 1
        if capacity is None or not is_all:
            return None
        dtype = node.output_types[0].as_numpy_dtype
        return FirstRows(np.arange(capacity[1], dtype=dtype), limit)
