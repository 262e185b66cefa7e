"""Pack many strings into one array, to process them with NumPy at once."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

WORD: Final = 8
"""The number of bytes that `words_at` reads as one integer."""
_MARGIN: Final = 2 * WORD


class PackedStrings:
    """Strings that are parts of one text; usually concatenated with a zero byte between them.

    Attributes:
        text: the text.
        sizes, starts: the size and the offset of each string, in bytes.
    """

    def __init__(self, items: Sequence[bytes]) -> None:
        """Concatenate strings."""
        self.text = b"\0".join(items)
        count = len(items)
        zeros = np.flatnonzero(np.frombuffer(self.text, np.uint8) == 0)
        if len(zeros) + 1 == count:  # no string contains a zero byte: avoids a call per string
            ends = np.empty(count, np.int64)
            ends[:-1], ends[-1] = zeros, len(self.text)
            self.starts: Any = np.zeros(count, np.int64)
            np.add(zeros, 1, out=self.starts[1:])
            self.sizes: Any = ends - self.starts
        else:
            self.sizes = np.fromiter(map(len, items), np.int64, count)
            self.starts = np.cumsum(self.sizes + 1) - self.sizes - 1

    @classmethod
    def within(cls, text: bytes, starts: Any, sizes: Any) -> PackedStrings:
        """Return the strings that are parts of a text."""
        packed = cls.__new__(cls)
        packed.text, packed.starts, packed.sizes = text, starts, sizes
        return packed

    @cached_property
    def _words(self) -> Any:
        padded = b"".join((bytes(_MARGIN), self.text, bytes(_MARGIN)))
        return np.ndarray((len(padded) - WORD + 1,), "<u8", padded, 0, (1,))

    def words_at(self, offsets: Any) -> Any:
        """Return the 8 bytes at each offset (>= -16) as uint64; zeros outside of the text."""
        return self._words[offsets + _MARGIN]
