"""The beam search of CTCBeamSearchDecoder.

Semantics: tensorflow/core/util/ctc/ctc_beam_search.h, with its order of work: what a beam that is
full drops depends on it.
"""

from __future__ import annotations

import heapq
import math
from typing import Any

import numpy as np

from graphmill.errors import InvalidArgumentError

_NEVER = -math.inf


def _log_sum(a: float, b: float) -> float:
    """Return log(exp(a) + exp(b))."""
    if a < b:
        a, b = b, a
    return a if b == _NEVER else a + math.log1p(math.exp(b - a))


class _Entry:
    """A sequence of labels: its last one, and the entry of those before.

    `blank`, `label` and `total` are log-probabilities that it ends in a blank, in its label, or at
    all; those of the step before begin with `old_`.
    """

    __slots__ = ("blank", "children", "end", "label", "old_blank", "old_total", "parent", "total")

    def __init__(self, parent: _Entry | None, end: int) -> None:
        self.parent = parent
        self.end = end
        self.children: dict[int, _Entry] = {}
        self.blank = self.label = self.total = _NEVER
        self.old_blank = self.old_total = _NEVER

    def forget(self) -> None:
        """Leave the beam."""
        self.blank = self.label = self.total = _NEVER

    def labels(self, merge_repeated: bool) -> list[int]:
        """Return the sequence, without repetitions if they are merged."""
        found: list[int] = []
        last, entry = -1, self
        while entry.parent is not None:
            if not (merge_repeated and entry.end == last):
                found.append(entry.end)
            last, entry = entry.end, entry.parent
        return found[::-1]


class _Beam:
    """The best entries; the worst one is at hand."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._heap: list[tuple[float, int, _Entry]] = []
        self._count = 0

    def would_take(self, total: float) -> bool:
        """Whether an entry of this probability would enter."""
        return total > _NEVER and (len(self._heap) < self._width or total > self._heap[0][0])

    def bottom(self) -> float:
        """Return what an entry must exceed."""
        return _NEVER if len(self._heap) < self._width else self._heap[0][0]

    def push(self, entry: _Entry) -> _Entry | None:
        """Take an entry in; return the one that leaves."""
        self._count += 1
        item = (entry.total, -self._count, entry)
        if len(self._heap) < self._width:
            heapq.heappush(self._heap, item)
            return None
        return heapq.heapreplace(self._heap, item)[2]

    def best_first(self) -> list[_Entry]:
        """Return the entries."""
        return [item[2] for item in sorted(self._heap, key=lambda item: (-item[0], -item[1]))]


def _keep(entries: list[_Entry], beam: _Beam, logits: list[float]) -> None:
    """Go a step on with the sequences as they are."""
    for entry in entries:
        entry.old_blank, entry.old_total = entry.blank, entry.total
    for entry in entries:
        parent = entry.parent
        if parent is not None:
            if parent.total != _NEVER:
                is_same = entry.end == parent.end
                before = parent.old_blank if is_same else parent.old_total
                entry.label = _log_sum(entry.label, before)
            entry.label += logits[entry.end]
        entry.blank = entry.old_total + logits[-1]
        entry.total = _log_sum(entry.blank, entry.label)
        beam.push(entry)


def _grow(entries: list[_Entry], beam: _Beam, logits: Any) -> None:
    """Make sequences longer by one label."""
    for entry in entries:
        if not beam.would_take(entry.old_total):
            continue
        totals = logits[:-1] + entry.old_total
        if entry.end >= 0:
            totals[entry.end] = logits[entry.end] + entry.old_blank
        worth = set(np.flatnonzero(totals > beam.bottom()).tolist())
        for label in sorted(worth | entry.children.keys()):
            child = entry.children.get(label)
            if child is not None and child.total != _NEVER:
                continue
            total = float(totals[label])
            if not beam.would_take(total):
                if child is not None:
                    child.old_blank = child.old_total = _NEVER
                continue
            if child is None:
                child = entry.children[label] = _Entry(entry, label)
            child.blank, child.label, child.total = _NEVER, total, total
            gone = beam.push(child)
            if gone is not None:
                gone.forget()


def beam_search(
    logits: Any, width: int, paths: int, merge_repeated: bool
) -> list[tuple[list[int], float]]:
    """Return the `paths` likeliest sequences for logits (steps, classes), with log-probabilities.

    The last class is the blank one.

    Raises:
        InvalidArgumentError: more sequences are asked for than the beam holds.
    """
    if paths > width:
        raise InvalidArgumentError("requested more paths than the beam width.")
    root = _Entry(None, -1)
    root.total = root.blank = 0.0
    entries = [root]
    exact = logits.astype(np.float64)
    peak = exact.max(axis=1, keepdims=True, initial=_NEVER)
    scores = exact - peak - np.log(np.exp(exact - peak).sum(axis=1, keepdims=True))
    for row in scores:
        beam = _Beam(width)
        _keep(entries, beam, row.tolist())
        _grow(entries, beam, row)
        entries = beam.best_first()
    if paths > len(entries):
        raise InvalidArgumentError("Less leaves in the beam search than requested.")
    return [(entry.labels(merge_repeated), entry.total) for entry in entries[:paths]]
