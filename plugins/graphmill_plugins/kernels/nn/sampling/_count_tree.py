"""Counts of classes, from which classes are drawn without a table of cumulative counts.

TensorFlow keeps a binary tree of sums (tensorflow/core/lib/random/weighted_picker.cc). This one is
wider and ends below its top, because NumPy searches thousands of sums in one call.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

_WIDTH: Final = 32
_MAX_TOP: Final = 1 << 13  # sums that are added up for each search, in 10 µs


class CountTree:
    """Counts of classes that begin with one. It is not safe for threads.

    Attributes:
        total: the sum of all counts.
    """

    def __init__(self, size: int) -> None:
        self.total = size
        self._levels = [np.ones(size, np.int32)]  # from single counts to sums of many
        while len(self._levels[-1]) > _MAX_TOP:
            below = self._levels[-1]
            below.resize(-(-len(below) // _WIDTH) * _WIDTH, refcheck=False)  # adds zeros
            self._levels.append(below.reshape(-1, _WIDTH).sum(axis=1, dtype=np.int32))

    def counts(self, classes: Any) -> Any:
        """Return the counts of classes."""
        return self._levels[0][classes]

    def add(self, classes: Any) -> None:
        """Count each of the classes once more; the total must stay below 2**31."""
        self.total += len(classes)
        for level in self._levels:
            np.add.at(level, classes, 1)
            classes = classes // _WIDTH

    def find(self, numbers: Any) -> Any:
        """Return the classes of numbers in [0, total): the first whose cumulative count is above.

        Args:
            numbers: int64 [n].
        """
        ends = np.cumsum(self._levels[-1], dtype=np.int64)
        found = np.searchsorted(ends, numbers, side="right")
        numbers = numbers - (ends[found] - self._levels[-1][found])
        for level in reversed(self._levels[:-1]):
            parts = level.reshape(-1, _WIDTH)[found]
            ends = np.cumsum(parts, axis=1)
            inner = np.count_nonzero(ends <= numbers[:, None], axis=1)
            rows = np.arange(len(numbers))
            numbers = numbers - (ends[rows, inner] - parts[rows, inner])
            found = found * _WIDTH + inner
        return found
