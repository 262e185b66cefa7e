"""The sizes of lists and tensor arrays that grew, during tracing.

To stack a v1 tensor array, a graph gathers its elements by `Range(0, size)`. With a dynamic size
the result is the first part of a range as long as the array's capacity.
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
    """Remembers what each size belongs to; values are compared by identity and kept alive."""

    def __init__(self) -> None:
        self._rooms: dict[int, tuple[Any, int]] = {}

    def note(self, counted: Any, count: Any, state: State) -> None:
        """Record the capacity of the list whose elements a value counts."""
        elements = counted if isinstance(counted, Elements) else state[counted]
        if count is elements.length and not is_static(count):
            self._rooms[id(count)] = count, elements.size

    def numbers(self, node: Node, inputs: Sequence[Any]) -> FirstRows | None:
        """Return the result of a `Range` from 0 to such a size; None for other ranges."""
        start, limit, delta = inputs
        found = self._rooms.get(id(limit))
        is_all = is_static(start) and is_static(delta) and not start and delta == 1
        if found is None or not is_all:
            return None
        dtype = node.output_types[0].as_numpy_dtype
        return FirstRows(np.arange(found[1], dtype=dtype), limit)
