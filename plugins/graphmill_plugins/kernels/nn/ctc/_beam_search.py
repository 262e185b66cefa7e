"""The beam search of CTCBeamSearchDecoder, vectorized over sequences, frame by frame.

Semantics: tensorflow/core/util/ctc/ctc_beam_search.h. TensorFlow extends the prefixes of a beam one
after the other, label by label. An extension enters a full beam if it is likelier than the least
likely prefix, and evicts that one. This is equivalent to selecting the best of all extensions
(the earlier one of two equals), with one exception: a prefix that is evicted before TensorFlow
extends its parent is not extended itself.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi.kernels import cancellable, check_cancelled
from graphmill_plugins.kernels._support import check_size
from graphmill_plugins.kernels.nn.ctc._few_prefixes import best_prefixes
from graphmill_plugins.kernels.nn.ctc._prefix_trie import PrefixTrie

_NEVER: Final = -math.inf
_LOWEST: Final = np.finfo(np.float64).min
_EXTENSIONS_PER_BATCH: Final = 1 << 16  # extensions in a batch of sequences: they fit in a cache
_FEW_PREFIXES: Final = 24  # prefixes of a batch up to which Python's numbers are faster than arrays
_NO_PREFIX: Final = 0  # the id in empty slots of a beam
_TOO_FEW: Final = "Less leaves in the beam search than requested."

Path = tuple[list[int], float]


class _Beams:
    """The best prefixes of some sequences, best first: arrays of (sequences, width + 1).

    `blank`, `label` and `total` are log-probabilities that a prefix ends in a blank, in its label,
    or in either. The last slot stays empty: it stands for a parent that is not in the beam.
    """

    def __init__(self, count: int, width: int, classes: int) -> None:
        shape = (count, width + 1)
        self._width, self._classes = width, classes
        self.trie = PrefixTrie(count, classes)
        self.prefix = np.full(shape, _NO_PREFIX, np.intp)
        self.prefix[:, 0] = np.arange(1, count + 1)
        self._parent = np.full(shape, _NO_PREFIX, np.intp)
        self._above = np.full(shape, width, np.intp)  # the slot of the parent
        self._end = np.full(shape, classes - 1, np.intp)  # roots count as ending in a blank
        self._is_double = np.zeros(shape, np.bool_)  # whether the parent ends in the same label
        self._label = np.full(shape, _NEVER)
        self._blank = np.full(shape, _NEVER)
        self.total = np.full(shape, _NEVER)
        self.total[:, 0] = self._blank[:, 0] = 0.0
        self._position = np.full(1024, width, np.intp)  # the slot of each prefix
        self._all = np.empty((count, width + (width + 1) * classes))
        sequences = np.arange(count)[:, None]
        self._row = sequences * (width + 1)
        self._class_row = sequences * classes
        self._grown_row = sequences * self._all.shape[1] + width
        self._grown_position = self._grown_row + np.arange(width + 1) * classes

    def step(self, scores: Any) -> None:
        """Advance the first sequences by one frame of log-probabilities (sequences, classes)."""
        count, width = len(scores), self._width
        labels = scores.copy()
        labels[:, -1] = _NEVER  # a blank never extends a prefix
        blank, label = self._unextended(scores)
        candidates = self._all[:count]
        candidates[:, :width] = np.logaddexp(blank, label)[:, :width]
        self._grow(labels)
        np.fmax(candidates, _NEVER, out=candidates)  # a NaN never enters the beam
        chosen, totals = self._best(candidates)
        for row in cancellable(self._rows_to_correct(chosen), 1):
            self._remove_extensions(row, candidates[row])
            chosen[row], totals[row] = self._best(candidates[row : row + 1])
        self._move(chosen, totals, blank, label)

    def _unextended(self, scores: Any) -> tuple[Any, Any]:
        """Return the next `blank` and `label` of the prefixes that are not extended."""
        count = len(scores)
        parents = self._row[:count] + self._above[:count]
        before = np.where(
            self._is_double[:count], self._blank.take(parents), self.total.take(parents)
        )
        label = np.logaddexp(self._label[:count], before)
        label += scores.take(self._class_row[:count] + self._end[:count])
        return self.total[:count] + scores[:, -1:], label

    def _grow(self, labels: Any) -> None:
        """Write the totals of all prefixes extended by one label."""
        count, width, classes = len(labels), self._width, self._classes
        grown = self._all[:count, width:].reshape(count, width + 1, classes)
        np.add(self.total[:count, :, None], labels[:, None, :], out=grown)
        flat, end = self._all.reshape(-1), self._end[:count]
        doubled = self._blank[:count] + labels.take(self._class_row[:count] + end)
        flat[self._grown_position[:count] + end] = doubled
        # A prefix that already is in the beam does not enter again.
        flat[self._grown_row[:count] + self._above[:count] * classes + end] = _NEVER

    def _best(self, candidates: Any) -> tuple[Any, Any]:
        """Return columns and values of the best of each row, descending and stable."""
        width, last = self._width, candidates.shape[1] - self._width
        threshold = np.partition(candidates, last, axis=1)[:, last, None]
        taken = candidates >= np.maximum(threshold, _LOWEST)
        taken[:, :width] |= threshold == _NEVER
        positions = np.flatnonzero(taken)
        if len(positions) != taken.shape[0] * width:
            _drop_late_ties(taken, candidates, threshold, width)
            positions = np.flatnonzero(taken)
        columns = (positions % candidates.shape[1]).reshape(-1, width)
        totals = candidates.take(positions).reshape(-1, width)
        order = np.argsort(-totals, axis=1, kind="stable")
        order += np.arange(len(order))[:, None] * width
        return columns.take(order), totals.take(order)

    def _rows_to_correct(self, chosen: Any) -> list[int]:
        """Return the rows in which an evicted prefix has extensions and follows its parent."""
        count, width = chosen.shape
        is_new = chosen >= width
        source = self._row[:count] + np.where(is_new, (chosen - width) // self._classes, chosen)
        # Prefixes that leave the beam, while an extension of theirs enters.
        evicted = np.zeros((count, width + 1), np.bool_)
        flat = evicted.reshape(-1)
        flat[source[is_new]] = True
        flat[source[~is_new]] = False
        may_reenter = evicted & (self._above[:count] < np.arange(width + 1))
        rows: list[int] = np.flatnonzero(may_reenter.any(axis=1)).tolist()
        return rows

    def _remove_extensions(self, row: int, values: Any) -> None:
        """Remove the extensions of prefixes that are evicted before their parent is extended."""
        width, classes = self._width, self._classes
        above, totals = self._above[row, :width], values[:width]
        descending = np.argsort(-totals, kind="stable")
        better = np.empty(width, np.intp)  # how many prefixes of the beam are better than each
        better[descending] = np.arange(width)
        candidates = np.flatnonzero(
            (above < np.arange(width)) & (self.prefix[row, :width] != _NO_PREFIX)
        )
        ranks = width + above[candidates] * classes + self._end[row, candidates]
        positions = width + np.flatnonzero(
            values[width:] > totals[candidates].min(initial=math.inf)
        )
        if not positions.size:
            return
        before = (values[positions] > totals[candidates, None]) & (positions < ranks[:, None])
        sources = (positions - width) // classes
        starts = np.flatnonzero(np.concatenate(([True], sources[1:] != sources[:-1])))
        by_source = np.add.reduceat(before, starts, axis=1, dtype=np.intp)
        column = {source: index for index, source in enumerate(sources[starts].tolist())}
        ahead = better[candidates] + by_source.sum(axis=1)
        unextended: set[int] = set()
        for index in cancellable(np.flatnonzero(ahead >= width).tolist(), 64):
            prefix = int(candidates[index])
            if ahead[index] < width or int(above[prefix]) in unextended:
                continue
            unextended.add(prefix)
            values[width + prefix * classes : width + (prefix + 1) * classes] = _NEVER
            if prefix in column:
                ahead -= by_source[:, column[prefix]]

    def _move(self, chosen: Any, totals: Any, blank: Any, label: Any) -> None:
        """Replace the beam by the chosen prefixes."""
        count, width = chosen.shape
        new = chosen >= width
        rows, added = np.divmod(chosen[new] - width, self._classes)
        chosen[new] = rows
        source = self._row[:count] + chosen
        prefix, end = self.prefix.take(source), self._end.take(source)
        parent, is_double = self._parent.take(source), self._is_double.take(source)
        blank, label = blank.take(source), label.take(source)
        blank[new], label[new] = _NEVER, totals[new]
        parent[new], is_double[new], end[new] = prefix[new], end[new] == added, added
        prefix[new] = self.trie.extend((parent[new] * self._classes + added).tolist())
        self._update_positions(count, prefix)
        for target, value in (
            (self._parent, parent),
            (self._end, end),
            (self._is_double, is_double),
            (self._blank, blank),
            (self._label, label),
            (self.total, totals),
            (self._above, self._position.take(parent)),
        ):
            target[:count, :width] = value

    def _update_positions(self, count: int, prefix: Any) -> None:
        width = self._width
        self._position[self.prefix[:count]] = width
        if self.trie.size > len(self._position):
            more = np.full(self.trie.size + len(self._position), width, np.intp)
            self._position = np.concatenate((self._position, more))
        self._position[prefix] = np.arange(width)
        self._position[_NO_PREFIX] = width
        self.prefix[:count, :width] = prefix


def _drop_late_ties(taken: Any, values: Any, threshold: Any, width: int) -> None:
    """In rows with more than `width` selected, deselect the last ones equal to the minimum."""
    counts = taken.sum(axis=1)
    for row in np.flatnonzero(counts > width).tolist():
        ties = np.flatnonzero(taken[row] & (values[row] == threshold[row]))
        taken[row, ties[width - counts[row] :]] = False


def _log_softmax(logits: Any) -> Any:
    exact = logits.astype(np.float64)
    exact -= exact.max(axis=-1, keepdims=True, initial=_NEVER)
    exact -= np.log(np.exp(exact).sum(axis=-1, keepdims=True))
    return exact


def beam_search(
    logits: Any, lengths: Any, width: int, paths: int, merge_repeated: bool
) -> list[list[Path]]:
    """Return the `paths` most probable label lists of each sequence, with log-probabilities.

    Args:
        logits: of shape (steps, sequences, classes); the last class is the blank one.
        lengths: number of steps of each sequence.
        width: number of prefixes in the beam.
        paths: number of lists to return.
        merge_repeated: whether to merge repeated labels in the result.

    Raises:
        InvalidArgumentError: `paths` exceeds the width of the beam.
    """
    if paths > width:
        raise InvalidArgumentError("requested more paths than the beam width.")
    classes = logits.shape[2]
    lengths = np.maximum(lengths, 0)  # negating the smallest integer would overflow
    longest_first = np.argsort(-lengths, kind="stable")
    all_paths: list[list[Path]] = [[]] * len(lengths)
    # Two tables of extensions, and about ten arrays of prefixes.
    check_size((width + 1, 2 * classes + 10), "the beam", itemsize=8)
    batch_size = max(1, _EXTENSIONS_PER_BATCH // max(1, width * classes))
    for start in range(0, len(lengths), batch_size):
        part = longest_first[start : start + batch_size]
        steps = lengths[part]
        check_cancelled()
        scores = _log_softmax(logits[: max(int(steps[0]), 0), part])
        if len(part) * width <= _FEW_PREFIXES and np.isfinite(scores).all():
            for column, sequence in enumerate(part.tolist()):
                own = scores[: max(int(steps[column]), 0), column]
                all_paths[sequence] = _few_paths(own, width, paths, merge_repeated)
            continue
        beams = _Beams(len(part), width, classes)
        for step, row in enumerate(scores):
            check_cancelled()
            beams.step(row[: int(np.count_nonzero(steps > step))])
        for index, sequence in enumerate(part.tolist()):
            all_paths[sequence] = _paths(beams, index, paths, merge_repeated)
    return all_paths


def _paths(beams: _Beams, index: int, paths: int, merge_repeated: bool) -> list[Path]:
    prefixes = beams.prefix[index, :paths].tolist()
    if _NO_PREFIX in prefixes:
        raise InvalidArgumentError(_TOO_FEW)
    totals = beams.total[index, :paths].tolist()
    labels = [beams.trie.labels(prefix, merge_repeated) for prefix in cancellable(prefixes)]
    return list(zip(labels, totals, strict=True))


def _few_paths(scores: Any, width: int, paths: int, merge_repeated: bool) -> list[Path]:
    """Return the best paths of a sequence with finite scores, of shape (steps, classes)."""
    trie = PrefixTrie(1, scores.shape[1])
    found = best_prefixes(scores, width, trie)[:paths]
    if len(found) < paths:
        raise InvalidArgumentError(_TOO_FEW)
    return [(trie.labels(prefix, merge_repeated), total) for prefix, total in cancellable(found)]
