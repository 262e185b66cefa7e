"""EditDistance between sparse sequences. Semantics: tensorflow/core/kernels/edit_distance_op.cc."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from graphmill.errors import InternalError, InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import check_size, checked_shape, shape_text
from graphmill_plugins.kernels.sparse._sparse import flat_positions, lie_inside

if TYPE_CHECKING:
    from graphmill.spi import Value

_ELEMENTS_A_ROUND: Final = 9  # elements that Python compares while NumPy does one round
_ROUNDS_TO_BEGIN: Final = 8  # rounds in the time in which NumPy compares all elements
_WORD: Final = 64  # bits of the integers in which NumPy holds a column of the table
_MAX_COMPARED: Final = 1 << 20  # pairs of elements that are compared at once
_MAX_PATTERN: Final = 4096  # elements of a sequence whose positions Python's integers hold fast


@kernel("EditDistance", host=True)
def edit_distance(
    hypothesis_indices: Value,
    hypothesis_values: Value,
    hypothesis_shape: Value,
    truth_indices: Value,
    truth_values: Value,
    truth_shape: Value,
    *,
    normalize: bool,
) -> Value:
    """Return Levenshtein distances between sequences along the last dimension, as float32.

    With `normalize`, a distance is divided by the length of the truth. If the truth is empty, it is
    0 for an empty hypothesis and infinite for any other.
    """
    for name, shape in (("hypothesis", hypothesis_shape), ("truth", truth_shape)):
        if shape.ndim != 1:
            raise InvalidArgumentError(f"{name}_shape should be a vector, got {shape.tolist()}")
        checked_shape(shape, f"{name}_shape")
    if hypothesis_shape.shape != truth_shape.shape or hypothesis_shape.size < 2:
        raise InvalidArgumentError(
            "Expected hypothesis.shape.size() and truth.shape.size() to be equal and at least 2, "
            f"got {hypothesis_shape.size} and {truth_shape.size}"
        )
    sizes = checked_shape(np.maximum(hypothesis_shape[:-1], truth_shape[:-1]))
    check_size(sizes)
    places = (
        _places(hypothesis_indices, hypothesis_values, sizes),
        _places(truth_indices, truth_values, sizes),
    )
    result = np.zeros(sizes, np.float32)
    values = _comparable(hypothesis_values, truth_values)
    groups: Any = slice(None)
    count = result.size
    if count > values[0].size + values[1].size:  # most sequences are empty, and have distance 0
        groups = np.unique(np.concatenate(places))
        places = np.searchsorted(groups, places[0]), np.searchsorted(groups, places[1])
        count = len(groups)
    hypotheses = _Sequences.of(places[0], values[0], count)
    truths = _Sequences.of(places[1], values[1], count)
    distances = _distances(hypotheses, truths)
    if normalize:
        lengths = truths.lengths
        of_empty = np.where(distances > 0, np.inf, 0.0)
        distances = np.where(lengths > 0, distances / np.maximum(lengths, 1), of_empty)
    result.reshape(-1)[groups] = distances
    return result


def _places(indices: Value, values: Value, sizes: tuple[int, ...]) -> Any:
    """Return for each value the index of its sequence in the flat result."""
    if values.ndim != 1:
        raise InvalidArgumentError(
            f"values should be a vector, but got shape: {shape_text(values.shape)}"
        )
    if indices.ndim != 2 or indices.shape != (values.size, len(sizes) + 1):
        raise InvalidArgumentError(
            f"indices must be a matrix with {len(sizes) + 1} columns and one row for each of "
            f"{values.size} values, but got shape: {shape_text(indices.shape)}"
        )
    groups = indices[:, :-1]
    if not lie_inside(groups, sizes):
        is_outside = ((groups < 0) | (groups >= sizes)).any(axis=1)
        group = groups[is_outside.argmax()].tolist()
        raise InternalError(f"group {group} is outside of the shape {list(sizes)}")
    return flat_positions(groups, sizes)


def _comparable(first: Value, second: Value) -> tuple[Value, Value]:
    """Return arrays that NumPy compares fast: numbers as they are, and ids of strings."""
    if first.dtype != object:
        return first, second
    ids: dict[Any, int] = {}
    return tuple(  # type: ignore[return-value]
        np.array([ids.setdefault(item, len(ids)) for item in value.tolist()], np.int64)
        for value in (first, second)
    )


class _Sequences(NamedTuple):
    """Sequences of different lengths.

    Attributes:
        elements: a row for each sequence; what follows its elements has no meaning.
        lengths: of each sequence.
    """

    elements: Any
    lengths: Any

    @classmethod
    def of(cls, rows: Any, values: Value, count: int) -> _Sequences:
        """Return `count` sequences; `rows` has the sequence that each value belongs to."""
        lengths = np.bincount(rows, minlength=count)
        if (rows[1:] < rows[:-1]).any():
            order = np.argsort(rows, kind="stable")
            rows, values = rows[order], values[order]
        starts = np.cumsum(lengths) - lengths
        longest = int(lengths.max(initial=0))
        check_size((count, longest), "the sequences")
        elements = np.zeros((count, longest), values.dtype)
        elements[rows, np.arange(len(rows)) - starts[rows]] = values
        return cls(elements, lengths)

    def part(self, rows: slice) -> _Sequences:
        """Return some of the sequences."""
        return _Sequences(self.elements[rows], self.lengths[rows])

    def tolist(self) -> list[list[Any]]:
        """Return each sequence as a list."""
        rows = zip(self.elements.tolist(), self.lengths.tolist(), strict=True)
        return [row[:length] for row, length in rows]


def _distances(first: _Sequences, second: _Sequences) -> Any:
    """Return the distance of each pair of sequences."""
    if first.elements.shape[1] > second.elements.shape[1]:
        first, second = second, first  # a distance has no direction
    # NumPy compares an element of each first sequence in a round, Python one after the other.
    shorter, longer = first.elements.shape[1], second.elements.shape[1]
    rounds = (shorter + _ROUNDS_TO_BEGIN) * (1 if longer <= _WORD else 2)
    if longer <= _MAX_PATTERN and first.lengths.sum() <= _ELEMENTS_A_ROUND * rounds:
        pairs = zip(first.tolist(), second.tolist(), strict=True)
        return np.array([_levenshtein(a, b) for a, b in pairs], np.int64)
    if longer > _WORD:
        return _levenshtein_of_all(first, second)
    step = max(_MAX_COMPARED // max(shorter * longer, 1), 1)
    if step >= len(first.lengths):
        return _levenshtein_by_bits(first, second)
    parts = [slice(start, start + step) for start in range(0, len(first.lengths), step)]
    return np.concatenate(
        [_levenshtein_by_bits(first.part(part), second.part(part)) for part in parts]
    )


def _levenshtein_by_bits(texts: _Sequences, patterns: _Sequences) -> Any:
    """Return the distances of all pairs as `_levenshtein` does, for patterns of up to 64 elements.

    Bits beyond a pattern's length have no meaning: nothing moves from a bit to a lower one.
    """
    count, longest = texts.elements.shape
    is_equal = texts.elements.T[:, :, None] == patterns.elements
    words = np.zeros((longest, count, _WORD // 8), np.uint8)
    packed = np.packbits(is_equal, axis=2, bitorder="little")
    words[..., : packed.shape[2]] = packed
    equals = words.view("<u8")[..., 0]
    rises, falls = np.full(count, ~np.uint64(0)), np.zeros(count, np.uint64)
    one = np.uint64(1)
    is_finished = texts.lengths <= np.arange(longest)[:, None]
    is_uneven = is_finished.any()
    for equal, finished in zip(equals, is_finished, strict=True):
        vertical = equal | falls
        horizontal = (((equal & rises) + rises) ^ rises) | equal
        to_right = (falls | ~(horizontal | rises)) << one | one
        to_left = (rises & horizontal) << one
        risen, fallen = to_left | ~(vertical | to_right), to_right & vertical
        if is_uneven:
            risen, fallen = np.where(finished, (rises, falls), (risen, fallen))
        rises, falls = risen, fallen
    within = ~np.uint64(0) >> (np.uint64(_WORD) - patterns.lengths.astype(np.uint64))
    within[patterns.lengths == 0] = 0  # no shift is by all bits
    change = np.bitwise_count(np.stack([rises & within, falls & within])).astype(np.int64)
    return texts.lengths + change[0] - change[1]


def _levenshtein(text: list[Any], pattern: list[Any]) -> int:
    """Return the minimum number of insertions, deletions and substitutions between two lists.

    The algorithm is Myers's ("A fast bit-vector algorithm for approximate string matching based on
    dynamic programming", 1999) in Hyyrö's form for distances: for each element of the text, a
    column of the table is computed as the bits of integers, which say where the distance rises or
    falls from one element of the pattern to the next.
    """
    distance = len(pattern)
    if not pattern:
        return len(text)
    positions: dict[Any, int] = {}
    for index, element in enumerate(pattern):
        positions[element] = positions.get(element, 0) | 1 << index
    last = 1 << (distance - 1)
    every = (last << 1) - 1
    rises, falls = every, 0
    for element in text:
        equal = positions.get(element, 0)
        vertical = equal | falls
        horizontal = (((equal & rises) + rises) ^ rises) | equal
        to_right = falls | (every & ~(horizontal | rises))
        to_left = rises & horizontal
        if to_right & last:
            distance += 1
        elif to_left & last:
            distance -= 1
        to_right = to_right << 1 | 1
        rises = (to_left << 1 | ~(vertical | to_right)) & every
        falls = to_right & vertical & every
    return distance


def _levenshtein_of_all(first: _Sequences, second: _Sequences) -> Any:
    """Return the distances of all pairs, computed for one element of each first sequence at a time.

    In a row of the table, an insertion costs one for each step to the right. With the column index
    subtracted (`ramp`), insertions amount to a running minimum.
    """
    order = np.argsort(-first.lengths, kind="stable")  # finished pairs are at the end
    lengths, left, right = first.lengths[order], first.elements[order], second.elements[order]
    ramp = np.arange(right.shape[1] + 1)
    rows = np.tile(ramp, (len(order), 1))
    for count in range(1, left.shape[1] + 1):
        active = int(np.count_nonzero(lengths >= count))
        row = rows[:active]
        changed = row[:, :-1] + (left[:active, count - 1, None] != right[:active])
        row[:, 0] = count
        row[:, 1:] = np.minimum(changed, row[:, 1:] + 1)
        row -= ramp
        np.minimum.accumulate(row, axis=1, out=row)
        row += ramp
    distances = np.empty(len(order), np.int64)
    distances[order] = rows[np.arange(len(order)), second.lengths[order]]
    return distances
