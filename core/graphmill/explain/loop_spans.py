"""Find when each execution and each iteration of a loop ran in a step, for timelines.

Iterations of a loop may overlap: nodes of the next one may run before the last nodes of the current
one. So each span has a lane; the spans of a lane are disjoint or nested.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_LEVEL = re.compile(r"(?P<frame>.+?):(?P<number>\d+)(?:/|$)")


class LoopSpan(NamedTuple):
    """An execution of a loop, or an iteration of it.

    Attributes:
        path: the iterations around it and itself, as `outer:3/inner` or `outer:3/inner:0`.
        name: the name of the loop's frame, or `iteration 0`.
        start, end: from its first node to its last one.
        lane: the index of its lane.
    """

    path: str
    name: str
    start: int
    end: int
    lane: int


def loop_spans(runs: Iterable[tuple[str, int, int]]) -> list[LoopSpan]:
    """Return the loops and iterations of nodes that ran, outer ones before inner ones.

    Args:
        runs: for each node its iterations as `outer:3/inner:0`, its start and its end.
    """
    extents: dict[tuple[str, ...], tuple[int, int]] = {}
    for iteration, start, end in runs:
        path: tuple[str, ...] = ()
        for level in _LEVEL.finditer(iteration):
            for part in (level["frame"], level["number"]):
                path = (*path, part)
                first, last = extents.get(path, (start, end))
                extents[path] = min(first, start), max(last, end)
    ordered = sorted(extents.items(), key=lambda item: (item[1][0], len(item[0]), -item[1][1]))
    lanes = _Lanes()
    return [
        LoopSpan(_text(path), _name(path), start, end, lanes.add(path, start, end))
        for path, (start, end) in ordered
    ]


class _Lanes:
    """The spans that are open in each lane, from the outside in."""

    def __init__(self) -> None:
        self._open: list[list[tuple[tuple[str, ...], int]]] = []

    def add(self, path: tuple[str, ...], start: int, end: int) -> int:
        """Return the lane of a span: that of the span around it, or a free one."""
        for opened in self._open:
            while opened and opened[-1][1] <= start:
                opened.pop()
        found = self._find(path[:-1])
        if found < 0:
            self._open.append([])
        self._open[found].append((path, end))
        return found if found >= 0 else len(self._open) - 1

    def _find(self, outer: tuple[str, ...]) -> int:
        """Return the lane whose innermost open span is `outer`, else an empty one, else -1."""
        for lane, opened in enumerate(self._open):
            if opened and opened[-1][0] == outer:
                return lane
        return next((lane for lane, opened in enumerate(self._open) if not opened), -1)


def _text(path: tuple[str, ...]) -> str:
    """Return frames and their iterations as text, in the form of messages."""
    pairs = [":".join(path[index : index + 2]) for index in range(0, len(path), 2)]
    return "/".join(pairs)


def _name(path: tuple[str, ...]) -> str:
    return f"iteration {path[-1]}" if len(path) % 2 == 0 else path[-1]
