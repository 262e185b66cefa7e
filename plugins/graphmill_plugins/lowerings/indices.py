"""Checks that indices are in range: otherwise kernels raise, but compiled code cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.spi import Check, Lowering, LoweringTable, errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import ArrayNamespace, Value


def in_range(xp: ArrayNamespace, values: Value, low: Any, high: Any) -> Value:
    """Return whether all values lie in [low, high)."""
    return xp.all((values >= low) & (values < high))


def is_static(value: Value) -> bool:
    """Return whether a value is static."""
    return isinstance(value, np.ndarray | np.generic)


def rows_exist(xp: ArrayNamespace, params: Value, indices: Value) -> Value:
    """Check that each index is a row index of `params`."""
    return in_range(xp, indices, 0, params.shape[0])


def slices_exist(xp: ArrayNamespace, params: Value, indices: Value, axis: Value) -> Value:
    """Check that each index is within the axis, if the axis is static."""
    if not is_static(axis):
        return np.True_
    return in_range(xp, indices, 0, params.shape[int(axis)])


def points_exist(xp: ArrayNamespace, params: Value, indices: Value, *_: Value) -> Value:
    """Check that each index vector is within the first axes of `params`."""
    sizes = np.asarray(params.shape[: indices.shape[-1]], np.int64)
    return in_range(xp, indices, 0, sizes)


def points_fit(xp: ArrayNamespace, indices: Value, updates: Value, shape: Value) -> Value:
    """Check that each index vector is within `shape`, if that is static."""
    del updates
    if not is_static(shape):
        return np.True_
    return in_range(xp, indices, 0, np.asarray(shape)[: indices.shape[-1]])


def indices_are_not_negative(
    xp: ArrayNamespace, indices: Sequence[Value], data: Sequence[Value]
) -> Value:
    """Check that no index of `DynamicStitch` is negative; there is no upper bound."""
    del data
    holds = np.True_
    for part in indices:
        holds = holds & xp.all(part >= 0)
    return holds


def is_permutation(xp: ArrayNamespace, values: Value) -> Value:
    """Check that each index occurs once."""
    return xp.all(xp.sort(values) == xp.arange(values.shape[0]))


def flat_indices_exist(xp: ArrayNamespace, indices: Value, dims: Value) -> Value:
    """Check that flat indices are within a tensor of these dimensions, which are not zero."""
    return in_range(xp, indices, 0, xp.prod(dims)) & xp.all(dims > 0)


def lengths_fit(xp: ArrayNamespace, values: Value, lengths: Value, *, seq_dim: int) -> Value:
    """Check that no sequence is longer than its axis."""
    return xp.all((lengths >= 0) & (lengths <= values.shape[seq_dim]))


def classes_exist(xp: ArrayNamespace, logits: Value, labels: Value) -> Value:
    """Check that each label is the index of a class."""
    return in_range(xp, labels, 0, logits.shape[-1])


_SCATTERS: Final = (
    *(f"TensorScatter{update}" for update in ("Update", "Add", "Sub", "Max", "Min")),
    "ScatterNdNonAliasingAdd",
)

LOWERINGS: Final = LoweringTable(
    Lowering(ops, checks=(Check(predicate, errors.InvalidArgumentError),))
    for ops, predicate in (
        (("Gather",), rows_exist),
        (("GatherV2",), slices_exist),
        (("GatherNd", *_SCATTERS), points_exist),
        (("ScatterNd",), points_fit),
        (("DynamicStitch", "ParallelDynamicStitch"), indices_are_not_negative),
        (("InvertPermutation",), is_permutation),
        (("UnravelIndex",), flat_indices_exist),
        (("ReverseSequence",), lengths_fit),
        (("SparseSoftmaxCrossEntropyWithLogits",), classes_exist),
    )
)
