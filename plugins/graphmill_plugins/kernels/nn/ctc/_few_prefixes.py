"""The beam search of CTCBeamSearchDecoder for few prefixes: TensorFlow's, prefix by prefix.

Python's numbers take less time than NumPy calls on arrays of few elements. The results are those
of `_beam_search`, bit by bit.

Semantics: tensorflow/core/util/ctc/ctc_beam_search.h.
"""

from __future__ import annotations

import math
from heapq import heapify, heappush, heapreplace
from math import exp, log1p
from typing import TYPE_CHECKING, Any, Final

from graphmill.spi.kernels import cancellable

if TYPE_CHECKING:
    from graphmill_plugins.kernels.nn.ctc._prefix_trie import PrefixTrie

_NEVER: Final = -math.inf
_LOG_2: Final = math.log(2.0)
_ROOT: Final = 1
_NO_PREFIX: Final = 0


_Prefix = tuple[int, int, int, float, float, float]
"""A prefix in the beam: its id, its parent's id, its last label, and three log-probabilities: that
it ends in a blank, in its label, or in either. A plain tuple, as a step makes one for each."""


def best_prefixes(scores: Any, width: int, trie: PrefixTrie) -> list[tuple[int, float]]:
    """Return the ids and log-probabilities of the most probable prefixes, best first.

    Args:
        scores: finite log-probabilities of one sequence, of shape (steps, classes); the last class
            is the blank one.
        width: number of prefixes in the beam.
        trie: a trie of one root, which gets the prefixes.
    """
    classes = scores.shape[1]
    beam: list[_Prefix] = [(_ROOT, _NO_PREFIX, classes - 1, 0.0, _NEVER, 0.0)]
    for row in cancellable(scores.tolist(), 1):
        beam = _step(beam, row, width, trie)
    return [(prefix[0], prefix[-1]) for prefix in beam]


def _step(beam: list[_Prefix], row: list[float], width: int, trie: PrefixTrie) -> list[_Prefix]:
    """Return the beam after one more frame of log-probabilities."""
    slots = {prefix[0]: slot for slot, prefix in enumerate(beam)}
    after: list[_Prefix] = []
    children: dict[int, dict[int, int]] = {}
    for slot, (name, parent, end, _, label, total) in enumerate(beam):
        above = slots.get(parent)
        if above is not None:
            children.setdefault(above, {})[end] = slot
            _, _, above_end, above_blank, _, above_total = beam[above]
            label = _log_of_sum(label, above_blank if above_end == end else above_total)
        label += row[end]
        blank = total + row[-1]
        after.append((name, parent, end, blank, label, _log_of_sum(blank, label)))
    chosen = [(prefix[-1], -slot) for slot, prefix in enumerate(after)]
    _extend(beam, children, row, width, chosen)
    chosen.sort(reverse=True)
    classes = len(row)
    new = [divmod(-column - width, classes) for _, column in chosen if -column >= width]
    names = iter(trie.extend([beam[slot][0] * classes + label for slot, label in new]))
    added = iter(new)
    result: list[_Prefix] = []
    for total, column in chosen:
        if -column < width:
            result.append(after[-column])
        else:
            slot, label = next(added)
            result.append((next(names), beam[slot][0], label, _NEVER, total, total))
    return result


def _extend(
    beam: list[_Prefix],
    children: dict[int, dict[int, int]],
    row: list[float],
    width: int,
    chosen: list[tuple[float, int]],
) -> None:
    """Extend the prefixes one after the other, label by label, and choose the best ones.

    Each chosen one is a pair of its total and its negated column: its slot if it is not extended,
    otherwise `width + slot * classes + label`. The later one of two equals leaves first. A prefix
    that has left when its parent reaches it is not extended itself.

    Args:
        beam: the prefixes, best first.
        children: for a slot the slots of its children in the beam, by their last label.
        row: the log-probabilities of the classes.
        width: the largest number of chosen ones.
        chosen: the prefixes that are not extended; the result.
    """
    heapify(chosen)
    classes = len(row)
    likeliest = sorted(zip(row[:-1], range(classes), strict=False), reverse=True)
    left: set[int] = set()
    refused: set[int] = set()
    for slot, (_, _, end, blank, _, total) in enumerate(beam):
        own = children.get(slot)
        lowest = chosen[0][0] if len(chosen) == width else _NEVER
        if slot in refused:
            continue
        likely = []
        for score, label in likeliest:
            if total + score <= lowest:
                break  # nor do the other labels enter: the lowest total of the beam only rises
            likely.append(label)
        if own is not None:
            likely = list({*likely, *own})
        likely.sort()
        first = width + slot * classes
        for label in likely:
            if own is not None and label in own:  # it is in the beam, or was before this frame
                if own[label] in left:
                    refused.add(own[label])
                continue
            extended = (blank if label == end else total) + row[label]
            if len(chosen) < width:
                if extended > _NEVER:
                    heappush(chosen, (extended, -first - label))
            elif extended > chosen[0][0]:
                left.add(-heapreplace(chosen, (extended, -first - label))[1])


def _log_of_sum(x: float, y: float) -> float:
    """Return `log(exp(x) + exp(y))` as `np.logaddexp` computes it."""
    if x == y:
        return x + _LOG_2
    difference = x - y
    if difference > 0:
        return x + log1p(exp(-difference))
    return y + log1p(exp(difference))
