"""Checks for histograms, bin counts and searches in sorted rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.spi import Check, Lowering, LoweringTable, errors

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value


def bins_are_not_negative(xp: ArrayNamespace, values: Value, *_: Value) -> Value:
    """Check that no value to count is negative."""
    return xp.all(values >= 0)


def range_is_finite(xp: ArrayNamespace, values: Value, limits: Value, nbins: Value) -> Value:
    """Check that a histogram's range is finite and not empty, and that no value is NaN.

    A single bin counts NaN as well.
    """
    has_range = xp.all(limits[0] < limits[1]) & xp.all(xp.isfinite(limits))
    return has_range & ((nbins == 1) | ~xp.any(xp.isnan(values)))


def rows_are_sorted(xp: ArrayNamespace, rows: Value, values: Value) -> Value:
    """Check that rows are sorted and without NaN, because search needs both."""
    return xp.all(rows[:, 1:] >= rows[:, :-1]) & xp.all(values == values)


LOWERINGS: Final = LoweringTable(
    (
        Lowering(
            ("Bincount", "DenseBincount"),
            checks=(Check(bins_are_not_negative, errors.InvalidArgumentError),),
        ),
        Lowering(
            ("HistogramFixedWidth",), checks=(Check(range_is_finite, errors.InvalidArgumentError),)
        ),
        Lowering(("LowerBound", "UpperBound"), checks=(Check(rows_are_sorted),)),
    )
)
