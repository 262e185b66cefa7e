"""Index a lookup table with dense integer keys by one array.

Most integer keys are indices of words, users or classes. A lookup in a dictionary is a Python call
for each key, which takes fifteen times as long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.spi import Value

_FEW: Final = 64  # keys for which a dictionary is quicker
_WIDEST: Final = 8  # places for each entry
_LEAST: Final = 1 << 10  # places that any table may have


class IntegerIndex:
    """An array index of a table's entries, built after as many lookups as there are keys.

    Threads: any may ask; what was made is replaced as a whole.

    Args:
        dtype: of the values, which are scalars.
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self._asked: tuple[object, int] = (None, 0)
        self._places: _Places | None = None

    def find(self, entries: Mapping[int, Any], keys: Value, default: Value) -> Value | None:
        """Return the values of `keys`, flat; None if that is better done one by one.

        Args:
            entries: of the table; another mapping is another state of it.
            keys: integers.
            default: the value of all other keys.
        """
        if keys.size < _FEW or default.size != 1:
            return None
        places = self._places
        if places is None or places.entries is not entries:
            of, asked = self._asked
            asked = keys.size + (asked if of is entries else 0)
            self._asked = entries, asked
            if asked < len(entries):
                return None
            places = self._places = _Places(entries, self._dtype)
        return places.find(keys, default.reshape(-1)) if places.are_close else None


class _Places:
    """A slot for each integer from the lowest key to the highest, and one for all others."""

    def __init__(self, entries: Mapping[int, Any], dtype: np.dtype[Any]) -> None:
        self.entries = entries
        keys = np.fromiter(entries, np.int64, len(entries))
        span = int(keys.max()) - int(keys.min()) + 1 if keys.size else 0
        self.are_close = 0 < span <= _WIDEST * keys.size + _LEAST
        self._filled: tuple[object, Any] = (None, None)
        if self.are_close:
            self._low = keys.min()
            self._values = np.empty(span + 1, dtype)
            self._is_there = np.zeros(span + 1, np.bool_)
            self._is_there[keys - self._low] = True
            self._values[keys - self._low] = list(entries.values())

    def find(self, keys: Value, default: Any) -> Any:
        """Return the values of `keys`, flat."""
        # As unsigned numbers, those below the lowest key are large ones, too.
        from_low = (keys.reshape(-1).astype(np.int64) - self._low).view(np.uint64)
        last = np.uint64(len(self._values) - 1)
        return self._with(default).take(np.minimum(from_low, last).view(np.int64))

    def _with(self, default: Any) -> Any:
        """Return the values, with the default for missing keys; cached."""
        name = default[0] if default.dtype.hasobject else default.tobytes()
        known, filled = self._filled
        if known != name:
            filled = np.where(self._is_there, self._values, default)
            self._filled = name, filled
        return filled
