"""Checks for segment ids and row indices of segment reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from graphmill.spi import Check, Lowering, LoweringTable, errors
from graphmill_plugins.lowerings.indices import in_range

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value


def ids_are_sorted(xp: ArrayNamespace, data: Value, segment_ids: Value, *_: Value) -> Value:
    """Check that sorted ids never decrease and are not negative."""
    del data
    if not segment_ids.size:
        return np.True_
    return xp.all(segment_ids[1:] >= segment_ids[:-1]) & (segment_ids[0] >= 0)


def sparse_segments_exist(
    xp: ArrayNamespace, data: Value, indices: Value, segment_ids: Value, num_segments: Value
) -> Value:
    """Check that row indices are in range, and sorted ids below the number of segments."""
    rows_exist = in_range(xp, indices, 0, data.shape[0])
    return rows_exist & ids_are_sorted(xp, data, segment_ids) & xp.all(segment_ids < num_segments)


def sparse_gradient_exists(
    xp: ArrayNamespace, grad: Value, indices: Value, segment_ids: Value, output_dim0: Value
) -> Value:
    """Check that row indices are within the output, and segment ids within the gradient."""
    return in_range(xp, segment_ids, 0, grad.shape[0]) & in_range(xp, indices, 0, output_dim0)


def segments_exist(xp: ArrayNamespace, grad: Value, ids: Value) -> Value:
    """Check that each segment id is a row index of the gradient."""
    return in_range(xp, ids, 0, grad.shape[0])


def ids_are_below_count(
    xp: ArrayNamespace, data: Value, segment_ids: Value, num_segments: Value
) -> Value:
    """Check that ids are below the number of segments; rows of negative ones are dropped."""
    del data
    return xp.all(segment_ids < num_segments)


def has_no_nan(xp: ArrayNamespace, data: Value, *_: Value) -> Value:
    """Check that no element is NaN, which XLA's extrema spread over the segment."""
    return xp.all(data == data)


_SORTED: Final = ("Sum", "Mean", "Max", "Min", "Prod")
_REDUCTIONS: Final = ("Sum", "Max", "Min", "Prod")
_SPARSE: Final = ("Sum", "Mean", "SqrtN")

_EXTREMA: Final = ("Max", "Min")


def _lowered(op: str, predicate: Callable[..., Value]) -> Lowering:
    checks = [Check(predicate, errors.InvalidArgumentError)]
    if op.removesuffix("V2").endswith(_EXTREMA):
        checks.append(Check(has_no_nan))
    return Lowering((op,), checks=tuple(checks))


LOWERINGS: Final = LoweringTable(
    _lowered(op, predicate)
    for ops, predicate in (
        ((f"Segment{name}" for name in _SORTED), ids_are_sorted),
        ((f"Segment{name}V2" for name in _REDUCTIONS), ids_are_sorted),
        ((f"SparseSegment{name}WithNumSegments" for name in _SPARSE), sparse_segments_exist),
        ((f"SparseSegment{name}Grad" for name in _SPARSE), sparse_gradient_exists),
        (("_SegmentRows",), segments_exist),
        ((f"UnsortedSegment{name}" for name in _REDUCTIONS), ids_are_below_count),
    )
    for op in ops
)
