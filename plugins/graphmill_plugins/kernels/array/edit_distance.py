"""EditDistance between sparse sequences. Semantics: tensorflow/core/kernels/edit_distance_op.cc."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InternalError, InvalidArgumentError
from graphmill.runtime.kernel import kernel
from graphmill_plugins.kernels._support import check_size, checked_shape, shape_text

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
    for place in hypotheses.keys() | truths.keys():
        truth = truths.get(place, [])
        distance: float = _levenshtein(hypotheses.get(place, []), truth)
        if normalize:
            distance = distance / len(truth) if truth else (np.inf if distance else 0.0)
        if not all(0 <= at < size for at, size in zip(place, sizes, strict=True)):
            raise InternalError(f"group {list(place)} is outside of the shape {list(sizes)}")
        result[place] = distance
    return result


def _sequences(indices: Value, values: Value) -> dict[tuple[int, ...], list[Any]]:
    """Return the values of each sequence under its place, in the order given."""
    if values.ndim != 1:
        raise InvalidArgumentError(
            f"values should be a vector, but got shape: {shape_text(values.shape)}"
        )
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
