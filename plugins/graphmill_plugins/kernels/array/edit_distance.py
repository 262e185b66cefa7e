"""EditDistance between sparse sequences. Semantics: tensorflow/core/kernels/edit_distance_op.cc."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.runtime.kernel import kernel

if TYPE_CHECKING:
    from graphmill.typing import ArrayNamespace, Value


@kernel("EditDistance", host=True)
def edit_distance(
    _xp: ArrayNamespace,
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

    Normalised ones are divided by the length of the truth; infinite for an empty truth that the
    hypothesis misses.
    """
    if hypothesis_shape.shape != truth_shape.shape or hypothesis_shape.size < 2:
        raise InvalidArgumentError(
            "Expected hypothesis.shape.size() and truth.shape.size() to be equal and at least 2, "
            f"got {hypothesis_shape.size} and {truth_shape.size}"
        )
    shape = np.maximum(hypothesis_shape[:-1], truth_shape[:-1]).tolist()
    result = np.zeros(shape, np.float32)
    hypotheses = _sequences(hypothesis_indices, hypothesis_values)
    truths = _sequences(truth_indices, truth_values)
    for place in hypotheses.keys() | truths.keys():
        truth = truths.get(place, [])
        distance: float = _levenshtein(hypotheses.get(place, []), truth)
        if normalize:
            distance = distance / len(truth) if truth else (np.inf if distance else 0.0)
        result[place] = distance
    return result


def _sequences(indices: Value, values: Value) -> dict[tuple[int, ...], list[Any]]:
    """Return the values of each sequence under its place, in the order given."""
    if indices.ndim != 2 or indices.shape[0] != values.size:
        raise InvalidArgumentError(
            f"indices must be a matrix with one row for each of {values.size} values"
        )
    found: dict[tuple[int, ...], list[Any]] = {}
    for index, value in zip(indices[:, :-1].tolist(), values.tolist(), strict=True):
        found.setdefault(tuple(index), []).append(value)
    return found


def _levenshtein(a: list[Any], b: list[Any]) -> int:
    """Return the least number of insertions, deletions and substitutions from `a` to `b`."""
    row = list(range(len(b) + 1))
    for count, left in enumerate(a, 1):
        diagonal, row[0] = row[0], count
        for place, right in enumerate(b, 1):
            change = diagonal + (left != right)
            diagonal = row[place]
            row[place] = min(change, row[place] + 1, row[place - 1] + 1)
    return row[-1]
