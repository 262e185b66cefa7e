"""Solve tridiagonal and banded triangular systems row by row in linear memory.

The rows are a recurrence: each step works on one row of all systems at once. `Scan` is the
function that runs the steps: a Python loop here, `lax.scan` in compiled programs.

Semantics: tensorflow/core/kernels/linalg/{tridiagonal,banded_triangular}_solve_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from graphmill.spi.kernels import cancellable

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value

    Scan: TypeAlias = Callable[..., tuple[Any, Any]]

_ROWS_UNCHECKED: Final = 16
"""Rows between two checks whether the step was cancelled; each may be of many systems."""


def scan_in_python(xp: ArrayNamespace) -> Scan:
    """Return a function like `lax.scan` that calls step(carry, row) in a Python loop."""

    def scan(
        step: Callable[[Any, Any], tuple[Any, Any]], carry: Any, rows: Any, *, reverse: bool = False
    ) -> tuple[Any, Any]:
        count = rows[0].shape[0]
        results: list[Any] = [None] * count
        order = reversed(range(count)) if reverse else range(count)
        for index in cancellable(order, _ROWS_UNCHECKED):
            carry, results[index] = step(carry, tuple(row[index] for row in rows))
        if not isinstance(results[0], tuple):
            return carry, xp.stack(results)
        return carry, tuple(xp.stack(part) for part in zip(*results, strict=True))

    return scan


def solve_tridiagonal(
    xp: ArrayNamespace, scan: Scan, diagonals: Value, rhs: Value, *, pivoting: bool, perturb: bool
) -> Value:
    """Solve systems given by diagonals [..., 3, M]: superdiagonal, main, subdiagonal.

    The result of a singular system is NaN (zero for complex types). With `perturb`, its pivots are
    moved away from zero, just as far as makes the result finite (LAPACK's dlagts).
    """
    above, middle, below = (
        xp.moveaxis(diagonals[..., row, :], -1, 0)[..., None] for row in (0, 1, 2)
    )
    rhs_rows = xp.moveaxis(rhs, -2, 0)
    zero = xp.zeros_like(middle[0])
    following = (
        *(xp.concat([part[1:], zero[None]]) for part in (below, middle)),
        xp.concat([above[1:-1], zero[None], zero[None]])[: middle.shape[0]],
        xp.concat([rhs_rows[1:], xp.zeros_like(rhs_rows[:1])]),
    )
    first = (middle[0], above[0] if middle.shape[0] > 1 else zero, rhs_rows[0])

    def eliminate(carry: Any, row: Any) -> tuple[Any, Any]:
        """Choose the row with the larger pivot, and eliminate the other row's first element."""
        (a, b, side), (c, d, e, other) = carry, row
        swap = (abs(a) < abs(c)) if pivoting else abs(a) < 0
        pivot, rest = xp.where(swap, c, a), xp.where(swap, a, c)
        factor = xp.where(pivot == 0, zero, rest / xp.where(pivot == 0, zero + 1, pivot))
        pivot_row = (xp.where(swap, d, b), xp.where(swap, e, zero), xp.where(swap, other, side))
        other_row = (xp.where(swap, b, d), xp.where(swap, zero, e), xp.where(swap, side, other))
        return (
            tuple(
                element - factor * pivot_element
                for element, pivot_element in zip(other_row, pivot_row, strict=True)
            ),
            (pivot, *pivot_row),
        )

    _, (pivots, *upper, rhs_rows) = scan(eliminate, first, following)
    limits, smallest = np.finfo(diagonals.dtype), zero
    if perturb:
        largest = xp.max(xp.stack([abs(pivots), *map(abs, upper)]), axis=(0, 1))
        smallest = xp.maximum(largest * limits.eps, xp.asarray(limits.tiny, dtype=largest.dtype))

    def substitute(carry: Any, row: Any) -> tuple[Any, Any]:
        (next_value, value_after), (pivot, near, far, side) = carry, row
        value = side - near * next_value - far * value_after
        value = value / (_moved(xp, pivot, value, smallest, limits) if perturb else pivot)
        return (value, next_value), value

    zeros = xp.zeros_like(rhs_rows[0])
    _, solution = scan(substitute, (zeros, zeros), (pivots, *upper, rhs_rows), reverse=True)
    if not perturb:
        singular = 0 if rhs.dtype.kind == "c" else xp.nan  # C++: quiet_NaN() of complex types is 0
        solution = xp.where(xp.any(pivots == 0, axis=0), singular, solution)
    return xp.moveaxis(solution, 0, -2).astype(rhs.dtype)


def _moved(xp: ArrayNamespace, pivot: Value, side: Value, smallest: Value, limits: Any) -> Value:
    """Move a pivot away from zero by `smallest`, then twice that …, until it can divide `side`."""
    size = abs(pivot)
    needed = xp.minimum(xp.maximum(abs(side) * limits.tiny - size, xp.zeros_like(smallest)), 1.0)
    times = xp.maximum(xp.ceil(xp.log2(1 + needed / smallest)), (size == 0).astype(smallest.dtype))
    direction = xp.where(size == 0, pivot + 1, pivot / xp.where(size == 0, 1, size))
    return pivot + direction * (smallest * (xp.exp2(times) - 1))


def solve_banded(
    xp: ArrayNamespace, scan: Scan, bands: Value, rhs: Value, *, lower: bool, adjoint: bool
) -> Value:
    """Solve triangular systems with equal batch dimensions, given by bands [..., K, M].

    The bands of a lower matrix have the main diagonal in row 0, and the k-th diagonal below it in
    row k, whose first k elements are unused. The bands of an upper matrix have the main diagonal in
    the last row, and the k-th diagonal above it in row K-1-k, whose last k elements are unused. An
    upper system is solved as a lower one with rows and columns reversed.
    """
    if not lower:
        bands = xp.flip(bands, axis=-2)
    if adjoint:
        bands = _adjoint(xp, bands, 1 if lower else -1)
    if lower is not adjoint:
        return _solve_lower(xp, scan, bands, rhs)
    reversed_solution = _solve_lower(xp, scan, xp.flip(bands, axis=-1), xp.flip(rhs, axis=-2))
    return xp.flip(reversed_solution, axis=-2)


def _adjoint(xp: ArrayNamespace, bands: Value, direction: int) -> Value:
    """Shift diagonals that are aligned by row to be aligned by column, and conjugate them."""
    moved = [xp.roll(bands[..., k, :], -direction * k, axis=-1) for k in range(bands.shape[-2])]
    return xp.conj(xp.stack(moved, axis=-2))


def _solve_lower(xp: ArrayNamespace, scan: Scan, bands: Value, rhs: Value) -> Value:
    count, size = bands.shape[-2:]
    zeros = xp.zeros_like(rhs[..., 0, :])

    def substitute(carry: Any, row: Any) -> tuple[Any, Any]:
        band, value = row
        for distance, solved in enumerate(carry, 1):
            value = value - band[..., distance, None] * solved
        value = value / band[..., 0, None]
        return (value, *carry[:-1]) if carry else (), value

    is_used = xp.arange(size) >= xp.arange(count)[:, None]
    rows = xp.moveaxis(xp.where(is_used, bands, xp.zeros_like(bands)), -1, 0)
    _, solution = scan(substitute, (zeros,) * (count - 1), (rows, xp.moveaxis(rhs, -2, 0)))
    return xp.moveaxis(solution, 0, -2)
