"""The beam search of CTCBeamSearchDecoder, one frame of many sequences at a time.

Semantics: tensorflow/core/util/ctc/ctc_beam_search.h. There the sequences of a beam grow one after
the other, label by label, and one enters a full beam if it is likelier than the worst one, which
leaves. The result is that of taking the best of all, the earlier one of two that are equal, but for
one thing: a prefix that has left before the turn of the one it grew from does not grow any more.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from graphmill.errors import InvalidArgumentError

_NEVER: Final = -math.inf
_LOWEST: Final = np.finfo(np.float64).min
_AT_ONCE: Final = 1 << 16  # extensions that are looked at together: they fit in a cache
_NOBODY: Final = 0  # the prefix that stands in empty places

Path = tuple[list[int], float]


class _Trie:
    """Prefixes as ids: each id is a previous prefix and a label."""

    def __init__(self, roots: int, classes: int) -> None:
        self._classes = classes
        self._roots = roots
        self._numbers: dict[int, int] = {}
        self._keys: list[int] = []

    def extend(self, keys: list[int]) -> list[int]:
        """Return the ids of prefixes from `previous id * classes + label`."""
        numbers, first = self._numbers, self._roots + 1
        return [numbers.setdefault(key, len(numbers) + first) for key in keys]

    @property
    def size(self) -> int:
        """The upper bound of all ids."""
        return self._roots + 1 + len(self._numbers)

    def labels(self, number: int, merge_repeated: bool) -> list[int]:
        """Return a prefix, without repetitions if they are merged."""
        if len(self._keys) < len(self._numbers):
            self._keys = list(self._numbers)
        found: list[int] = []
        last = -1
        while number > self._roots:
            number, label = divmod(self._keys[number - self._roots - 1], self._classes)
            if not (merge_repeated and label == last):
                found.append(label)
            last = label
        return found[::-1]


class _Beams:
    """The best prefixes of some sequences, best first: arrays of (sequences, width + 1).

    `blank`, `label` and `total` are log-probabilities that a prefix ends in a blank, in its label,
    or at all. The last place stays empty: it stands for a parent that is not in the beam.
    """

    def __init__(self, count: int, width: int, classes: int) -> None:
        shape = (count, width + 1)
        self._width, self._classes = width, classes
        self.trie = _Trie(count, classes)
        self.number = np.full(shape, _NOBODY, np.intp)
        self.number[:, 0] = np.arange(1, count + 1)
        self._parent = np.full(shape, _NOBODY, np.intp)
        self._above = np.full(shape, width, np.intp)  # the place of the parent
        self._end = np.full(shape, classes - 1, np.intp)  # roots end in a blank, so to speak
        self._is_double = np.zeros(shape, np.bool_)  # whether the parent ends in the same label
        self._label = np.full(shape, _NEVER)
        self._blank = np.full(shape, _NEVER)
        self.total = np.full(shape, _NEVER)
        self.total[:, 0] = self._blank[:, 0] = 0.0
        self._place = np.full(1024, width, np.intp)  # of each prefix
        self._all = np.empty((count, width + (width + 1) * classes))
        sequences = np.arange(count)[:, None]
        self._row = sequences * (width + 1)
        self._class_row = sequences * classes
        self._grown_row = sequences * self._all.shape[1] + width
        self._grown_place = self._grown_row + np.arange(width + 1) * classes

    def step(self, scores: Any) -> None:
        """Advance the first sequences by one frame of log-probabilities (sequences, classes)."""
        count, width = len(scores), self._width
        labels = scores.copy()
        labels[:, -1] = _NEVER  # no prefix grows by a blank
        blank, label = self._kept(scores)
        everything = self._all[:count]
        everything[:, :width] = np.logaddexp(blank, label)[:, :width]
        self._grow(labels)
        np.fmax(everything, _NEVER, out=everything)  # what is nan never enters
        chosen, totals = self._best(everything)
        for row in self._rows_in_doubt(chosen):
            self._silence(row, everything[row])
            chosen[row], totals[row] = self._best(everything[row : row + 1])
        self._move(chosen, totals, blank, label)

    def _kept(self, scores: Any) -> tuple[Any, Any]:
        """Return blank and label of the prefixes as they are, a step later."""
        count = len(scores)
        parents = self._row[:count] + self._above[:count]
        before = np.where(
            self._is_double[:count], self._blank.take(parents), self.total.take(parents)
        )
        label = np.logaddexp(self._label[:count], before)
        label += scores.take(self._class_row[:count] + self._end[:count])
        return self.total[:count] + scores[:, -1:], label

    def _grow(self, labels: Any) -> None:
        """Write the totals of all prefixes that are longer by a label."""
        count, width, classes = len(labels), self._width, self._classes
        grown = self._all[:count, width:].reshape(count, width + 1, classes)
        np.add(self.total[:count, :, None], labels[:, None, :], out=grown)
        flat, end = self._all.reshape(-1), self._end[:count]
        doubled = self._blank[:count] + labels.take(self._class_row[:count] + end)
        flat[self._grown_place[:count] + end] = doubled
        # What is in the beam already does not enter again.
        flat[self._grown_row[:count] + self._above[:count] * classes + end] = _NEVER

    def _best(self, everything: Any) -> tuple[Any, Any]:
        """Return columns and values of the best of each row, best first, the earlier of equals."""
        width, last = self._width, everything.shape[1] - self._width
        least = np.partition(everything, last, axis=1)[:, last, None]
        taken = everything >= np.maximum(least, _LOWEST)
        taken[:, :width] |= least == _NEVER
        places = np.flatnonzero(taken)
        if len(places) != taken.shape[0] * width:
            _drop_late_ties(taken, everything, least, width)
            places = np.flatnonzero(taken)
        columns = (places % everything.shape[1]).reshape(-1, width)
        totals = everything.take(places).reshape(-1, width)
        order = np.argsort(-totals, axis=1, kind="stable")
        order += np.arange(len(order))[:, None] * width
        return columns.take(order), totals.take(order)

    def _rows_in_doubt(self, chosen: Any) -> list[int]:
        """Return the rows in which a prefix that leaves has grown after the turn of its parent."""
        count, width = chosen.shape
        is_new = chosen >= width
        source = self._row[:count] + np.where(is_new, (chosen - width) // self._classes, chosen)
        alone = np.zeros((count, width + 1), np.bool_)  # what grows and does not stay
        flat = alone.reshape(-1)
        flat[source[is_new]] = True
        flat[source[~is_new]] = False
        doubtful = alone & (self._above[:count] < np.arange(width + 1))
        rows: list[int] = np.flatnonzero(doubtful.any(axis=1)).tolist()
        return rows

    def _silence(self, row: int, values: Any) -> None:
        """Take the extensions of prefixes away that have left when it is their parent's turn."""
        width, classes = self._width, self._classes
        above, totals = self._above[row, :width], values[:width]
        by_worth = np.argsort(-totals, kind="stable")
        better = np.empty(width, np.intp)  # how many of the beam are better than each
        better[by_worth] = np.arange(width)
        asked = np.flatnonzero((above < np.arange(width)) & (self.number[row, :width] != _NOBODY))
        turns = width + above[asked] * classes + self._end[row, asked]
        places = width + np.flatnonzero(values[width:] > totals[asked].min(initial=math.inf))
        if not places.size:
            return
        before = (values[places] > totals[asked, None]) & (places < turns[:, None])
        sources = (places - width) // classes
        starts = np.flatnonzero(np.concatenate(([True], sources[1:] != sources[:-1])))
        by_source = np.add.reduceat(before, starts, axis=1, dtype=np.intp)
        column = {source: at for at, source in enumerate(sources[starts].tolist())}
        ahead = better[asked] + by_source.sum(axis=1)
        silent: set[int] = set()
        for at in np.flatnonzero(ahead >= width).tolist():
            prefix = int(asked[at])
            if ahead[at] < width or int(above[prefix]) in silent:
                continue
            silent.add(prefix)
            values[width + prefix * classes : width + (prefix + 1) * classes] = _NEVER
            if prefix in column:
                ahead -= by_source[:, column[prefix]]

    def _move(self, chosen: Any, totals: Any, blank: Any, label: Any) -> None:
        """Let the chosen ones be the beam."""
        count, width = chosen.shape
        new = chosen >= width
        rows, added = np.divmod(chosen[new] - width, self._classes)
        chosen[new] = rows
        source = self._row[:count] + chosen
        number, end = self.number.take(source), self._end.take(source)
        parent, is_double = self._parent.take(source), self._is_double.take(source)
        blank, label = blank.take(source), label.take(source)
        blank[new], label[new] = _NEVER, totals[new]
        parent[new], is_double[new], end[new] = number[new], end[new] == added, added
        number[new] = self.trie.extend((parent[new] * self._classes + added).tolist())
        self._place_anew(count, number)
        for held, value in (
            (self._parent, parent),
            (self._end, end),
            (self._is_double, is_double),
            (self._blank, blank),
            (self._label, label),
            (self.total, totals),
            (self._above, self._place.take(parent)),
        ):
            held[:count, :width] = value

    def _place_anew(self, count: int, number: Any) -> None:
        width = self._width
        self._place[self.number[:count]] = width
        if self.trie.size > len(self._place):
            more = np.full(self.trie.size + len(self._place), width, np.intp)
            self._place = np.concatenate((self._place, more))
        self._place[number] = np.arange(width)
        self._place[_NOBODY] = width
        self.number[:count, :width] = number


def _drop_late_ties(taken: Any, values: Any, least: Any, width: int) -> None:
    """Where more than `width` of a row are taken, leave out the last ones that equal the least."""
    counts = taken.sum(axis=1)
    for row in np.flatnonzero(counts > width).tolist():
        ties = np.flatnonzero(taken[row] & (values[row] == least[row]))
        taken[row, ties[width - counts[row] :]] = False


def _log_softmax(logits: Any) -> Any:
    exact = logits.astype(np.float64)
    exact -= exact.max(axis=-1, keepdims=True, initial=_NEVER)
    exact -= np.log(np.exp(exact).sum(axis=-1, keepdims=True))
    return exact


def beam_search(
    logits: Any, lengths: Any, width: int, paths: int, merge_repeated: bool
) -> list[list[Path]]:
    """Return for each sequence the `paths` likeliest lists of labels, with log-probabilities.

    Args:
        logits: of shape (steps, sequences, classes); the last class is the blank one.
        lengths: how many steps each sequence has.
        width: how many prefixes are followed.
        paths: how many are wanted.
        merge_repeated: whether a repeated label is kept once in the result.

    Raises:
        InvalidArgumentError: more paths are asked for than the beam holds.
    """
    if paths > width:
        raise InvalidArgumentError("requested more paths than the beam width.")
    classes = logits.shape[2]
    lengths = np.maximum(lengths, 0)  # whose sign can be turned
    longest_first = np.argsort(-lengths, kind="stable")
    found: list[list[Path]] = [[]] * len(lengths)
    at_once = max(1, _AT_ONCE // max(1, width * classes))
    for start in range(0, len(lengths), at_once):
        part = longest_first[start : start + at_once]
        steps = lengths[part]
        scores = _log_softmax(logits[: max(int(steps[0]), 0), part])
        beams = _Beams(len(part), width, classes)
        for step, row in enumerate(scores):
            beams.step(row[: int(np.count_nonzero(steps > step))])
        for place, sequence in enumerate(part.tolist()):
            found[sequence] = _paths(beams, place, paths, merge_repeated)
    return found


def _paths(beams: _Beams, place: int, paths: int, merge_repeated: bool) -> list[Path]:
    numbers = beams.number[place, :paths].tolist()
    if _NOBODY in numbers:
        raise InvalidArgumentError("Less leaves in the beam search than requested.")
    totals = beams.total[place, :paths].tolist()
    labels = [beams.trie.labels(number, merge_repeated) for number in numbers]
    return list(zip(labels, totals, strict=True))
