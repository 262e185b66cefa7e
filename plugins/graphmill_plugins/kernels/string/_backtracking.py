"""An upper bound on the steps that a backtracking matcher takes for a pattern.

A sequence multiplies the ways in which its parts can match from one position, an alternation adds
them. A bound is a polynomial's leading term, `coefficient * (n + 1) ** degree` for a text of `n`
characters; a repeated part that can match in several ways has none.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class _Ways(NamedTuple):
    coefficient: float
    degree: int

    def times(self, other: _Ways) -> _Ways:
        return _Ways(self.coefficient * other.coefficient, self.degree + other.degree)

    def plus(self, other: _Ways) -> _Ways:
        return _Ways(self.coefficient + other.coefficient, max(self.degree, other.degree))

    def repeated(self, low: int, high: int | None) -> _Ways:
        if self == _ONE:
            return _Ways(1, 1) if high is None else _Ways(max(high - low + 1, 1), 0)
        if high is None:
            return _Ways(math.inf, 0)
        try:
            return _Ways(self.coefficient**high * (high - low + 1), self.degree * high)
        except OverflowError:
            return _Ways(math.inf, 0)


_ONE = _Ways(1, 0)


class _Group:
    """The parts of an open group: finished alternatives, and the one being parsed."""

    def __init__(self) -> None:
        self.finished = _Ways(0, 0)
        self.sequence = _ONE
        self.last = _ONE
        self.size = 1.0  # steps on one path
        self.last_size = 1.0


class BacktrackingBound:
    """The bound of a pattern, computed while the pattern is parsed from left to right."""

    def __init__(self) -> None:
        self._groups = [_Group()]

    def add_atom(self) -> None:
        """Read a character, a class or an assertion."""
        self._add(_ONE, 1)

    def open_group(self) -> None:
        """Read the start of a group."""
        self._groups.append(_Group())

    def close_group(self) -> None:
        """Read the end of a group; an unmatched one is ignored, because the pattern is invalid."""
        if len(self._groups) > 1:
            group = self._groups.pop()
            self._add(_all_ways(group), group.size + group.last_size)

    def add_alternative(self) -> None:
        """Read a `|`."""
        group = self._groups[-1]
        group.finished = _all_ways(group)
        group.sequence = group.last = _ONE

    def repeat(self, low: int, high: int | None) -> None:
        """Read a repetition of the last part; `high` is None for any number of times."""
        group = self._groups[-1]
        group.last = group.last.repeated(low, high)
        group.last_size *= high or 1

    def steps(self, length: int, starts: int) -> float:
        """Return the bound for a text of `length` characters and a number of start positions."""
        (group,) = self._groups
        ways = _all_ways(group)
        try:
            count = ways.coefficient * float(length + 1) ** ways.degree
        except OverflowError:
            return math.inf
        return starts * count * (group.size + group.last_size)

    def _add(self, ways: _Ways, size: float) -> None:
        group = self._groups[-1]
        group.sequence = group.sequence.times(group.last)
        group.size += group.last_size
        group.last, group.last_size = ways, size


def _all_ways(group: _Group) -> _Ways:
    return group.finished.plus(group.sequence.times(group.last))
