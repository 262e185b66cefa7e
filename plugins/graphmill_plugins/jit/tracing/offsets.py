"""`Offsets`: static differences between traced integers.

The size of `x[t:t + 3]` is static although `t` is traced. To find it, `Offsets` records the scalars
that vectors are packed from, and the sums of integers and constants.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphmill_plugins.jit.tracing.static_values import is_static


class Offsets:
    """The static differences between the integers in the begin and end of slices.

    Values are distinguished by identity. They stay referenced, so that no id is reused.
    """

    def __init__(self) -> None:
        self._parts: dict[int, tuple[Any, list[Any]]] = {}
        self._sums: dict[int, tuple[Any, Any, int]] = {}

    def note_packed(self, values: list[Any], vector: Any) -> None:
        """Record the scalars that a vector was packed from."""
        if not np.ndim(values[0]):
            self._parts[id(vector)] = vector, values

    def note_sum(self, values: list[Any], result: Any) -> None:
        """Record the integer to which a static integer was added."""
        if np.ndim(result) or result.dtype.kind != "i":
            return
        for value, added in (values, values[::-1]):
            if is_static(added):
                base, offset = self.origin(value)
                self._sums[id(result)] = result, base, offset + int(added)

    def parts(self, vector: Any) -> list[Any]:
        """Return the elements of a vector, as Python integers where they are static."""
        if is_static(vector):
            items: list[Any] = vector.tolist()
            return items
        packed = self._parts.get(id(vector))
        elements = [vector[i] for i in range(vector.shape[0])] if packed is None else packed[1]
        return [int(value) if is_static(value) else value for value in elements]

    def origin(self, value: Any) -> tuple[Any, int]:
        """Return the traced integer and the static offset that make up an integer."""
        recorded = self._sums.get(id(value))
        return (value, 0) if recorded is None else (recorded[1], recorded[2])

    def distance(self, start: Any, stop: Any) -> int | None:
        """Return the difference between two integers, if it is static."""
        (first, before), (second, after) = self.origin(start), self.origin(stop)
        return after - before if first is second else None
