"""EditDistance between sparse sequences. Semantics: tensorflow/core/kernels/edit_distance_op.cc."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.errors import InternalError, InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import check_size, checked_shape, shape_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import Value

_MIN_NUMPY_PAIRS: Final = 2048  # pairs of elements from which on NumPy is faster than a Python loop


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
    result = np.zeros(sizes, np.float32)
    hypotheses = _sequences(hypothesis_indices, hypothesis_values)
    truths = _sequences(truth_indices, truth_values)
    groups = list(hypotheses.keys() | truths.keys())
    pairs = [(hypotheses.get(group, []), truths.get(group, [])) for group in groups]
    for group, (_, truth), distance in zip(groups, pairs, _distances(pairs), strict=True):
        if normalize:
            distance = distance / len(truth) if truth else (np.inf if distance else 0.0)
        if not all(0 <= index < size for index, size in zip(group, sizes, strict=True)):
            raise InternalError(f"group {list(group)} is outside of the shape {list(sizes)}")
        result[group] = distance
    return result


def _sequences(indices: Value, values: Value) -> dict[tuple[int, ...], list[Any]]:
    """Return the values of each sequence by its index, in the order of the input."""
    if values.ndim != 1:
        raise InvalidArgumentError(
            f"values should be a vector, but got shape: {shape_text(values.shape)}"
        )
    if indices.ndim != 2 or indices.shape[0] != values.size:
        raise InvalidArgumentError(
            f"indices must be a matrix with one row for each of {values.size} values"
        )
    sequences: dict[tuple[int, ...], list[Any]] = {}
    for index, value in zip(indices[:, :-1].tolist(), values.tolist(), strict=True):
        sequences.setdefault(tuple(index), []).append(value)
    return sequences


def _distances(pairs: Sequence[tuple[list[Any], list[Any]]]) -> list[float]:
    """Return the distance of each pair of sequences."""
    if sum(len(a) * len(b) for a, b in pairs) < _MIN_NUMPY_PAIRS:
        return [_levenshtein(a, b) for a, b in pairs]
    return _levenshtein_of_all(pairs)


def _levenshtein(a: list[Any], b: list[Any]) -> int:
    """Return the minimum number of insertions, deletions and substitutions from `a` to `b`."""
    row = list(range(len(b) + 1))
    for count, left in enumerate(a, 1):
        diagonal, row[0] = row[0], count
        for column, right in enumerate(b, 1):
            change = diagonal + (left != right)
            diagonal = row[column]
            row[column] = min(change, row[column] + 1, row[column - 1] + 1)
    return row[-1]


def _levenshtein_of_all(pairs: Sequence[tuple[list[Any], list[Any]]]) -> list[float]:
    """Return the distances of all pairs, computed for one element of each first sequence at a time.

    In a row of the table, an insertion costs one for each step to the right. With the column index
    subtracted (`ramp`), insertions amount to a running minimum.
    """
    first_lengths = np.array([len(a) for a, _ in pairs])
    order = np.argsort(-first_lengths, kind="stable")  # finished pairs are at the end
    first_lengths = first_lengths[order]
    ids: dict[Any, int] = {}
    first = _padded([pairs[index][0] for index in order.tolist()], ids)
    second = _padded([pairs[index][1] for index in order.tolist()], ids)
    ramp = np.arange(second.shape[1] + 1)
    rows = np.tile(ramp, (len(pairs), 1))
    for count in range(1, first.shape[1] + 1):
        active = int(np.count_nonzero(first_lengths >= count))
        row = rows[:active]
        changed = row[:, :-1] + (first[:active, count - 1, None] != second[:active])
        row[:, 0] = count
        row[:, 1:] = np.minimum(changed, row[:, 1:] + 1)
        row -= ramp
        np.minimum.accumulate(row, axis=1, out=row)
        row += ramp
    distances = np.empty(len(pairs))
    second_lengths = [len(pairs[index][1]) for index in order.tolist()]
    distances[order] = rows[np.arange(len(pairs)), second_lengths]
    result: list[float] = distances.tolist()
    return result


def _padded(sequences: Sequence[list[Any]], ids: dict[Any, int]) -> Value:
    """Return a matrix with a sequence in each row; equal elements have equal ids, padding is -1."""
    lengths = np.array(list(map(len, sequences)))
    padded = np.full((len(sequences), lengths.max(initial=0)), -1)
    elements = itertools.chain.from_iterable(sequences)
    element_ids = (ids.setdefault(element, len(ids)) for element in elements)
    padded[np.arange(padded.shape[1]) < lengths[:, None]] = np.fromiter(element_ids, np.int64)
    return padded
