"""Reductions: sum, product, minimum, maximum, mean, norm, argmin and argmax.

Integers keep their type and wrap; narrow floats are accumulated in float32. The NumPy kernels call
`ufunc.reduce`, which takes half the time of `np.sum` and similar functions on small arrays.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import KernelDef, KernelTable, kernel
from graphmill_plugins.kernels._support import (
    accumulator,
    check_size,
    checked_axis,
    is_narrow,
    is_numpy,
    scalar_int,
    shape_text,
)
from graphmill_plugins.kernels.small_axis import are_short, reduced

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value

    Reduction = Callable[[Value, Value], Value]
    EmptyValue = Callable[[np.dtype[Any]], Any]

_STATIC = ("reduction_indices",)


def _axes(x: Value, indices: Value, result: np.dtype[Any] | None = None) -> tuple[int, ...]:
    """Return the axes to reduce as a tuple without repetitions.

    Args:
        x: the array.
        indices: its axes.
        result: the type of what is computed, if it is not that of `x`.

    Raises:
        InvalidArgumentError: an axis is out of range or repeated.
        ResourceExhaustedError: the result of an empty array is larger than the memory budget.
    """
    axes = _checked_axes(indices, x.ndim)
    if not x.size:  # only then can the result be larger than `x`
        kept = [size for axis, size in enumerate(x.shape) if axis not in axes]
        check_size(kept, itemsize=(result or x.dtype).itemsize)
    return axes


def _checked_axes(indices: Value, rank: int) -> tuple[int, ...]:
    # Like TensorFlow's kernels, accept a matrix of axes.
    axes = indices.tolist() if indices.ndim < 2 else indices.reshape(-1).tolist()
    if type(axes) is int:
        axes = [axes]
    if len(axes) == 1:
        return (checked_axis(axes[0], rank, "reduction dimension"),)
    checked = tuple(checked_axis(axis, rank, "reduction dimension") for axis in axes)
    if len(set(checked)) < len(checked):
        raise InvalidArgumentError(
            f"Invalid reduction arguments: axes {axes} name a dimension twice"
        )
    return checked


def _mean_accumulator(T: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type in which a mean is computed: 64 bits for integers."""
    return np.dtype(f"{T.kind}8") if T.kind in "iu" else accumulator(T)


def lowest(dtype: np.dtype[Any]) -> Any:
    """Return the maximum of an empty set: minus infinity, or the smallest integer."""
    return dtype.type(np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf)


def highest(dtype: np.dtype[Any]) -> Any:
    """Return the minimum of an empty set: infinity, or the largest integer."""
    return dtype.type(np.iinfo(dtype).max if dtype.kind in "iu" else np.inf)


def _divisor(shape: tuple[int, ...], axes: tuple[int, ...], T: np.dtype[Any]) -> int:
    """Return the divisor of a mean: 1 if empty, but 0 for real floats, whose mean is then NaN."""
    count = _count(shape, axes)
    return max(count, 1) if T.kind in "iuc" else count


def _count(shape: tuple[int, ...], axes: tuple[int, ...]) -> int:
    count = 1
    for axis in axes:
        count *= shape[axis]
    return count


def _numpy_sum(ufunc: np.ufunc) -> Callable[..., Reduction]:
    """Return the kernel of a sum or product, which accumulates in T or, if T is narrow, float32."""

    def make(_xp: ArrayNamespace, T: np.dtype[Any], keep_dims: bool) -> Reduction:
        sum_type = accumulator(T)
        reduce: Any = ufunc.reduce  # positional arguments are faster than keywords
        if sum_type is T:

            def wide(x: Value, indices: Value) -> Value:
                axes = _axes(x, indices)
                if are_short(x) and axes == (x.ndim - 1,):
                    return reduced(ufunc, x, T, keep_dims=keep_dims)
                return reduce(x, axes, T, None, keep_dims) if axes else x

            return wide

        def narrow(x: Value, indices: Value) -> Value:
            axes = _axes(x, indices, sum_type)
            return reduce(x, axes, sum_type, None, keep_dims).astype(T)

        return narrow

    return make


_MIN_LANE_ELEMENTS = 4096  # elements from which on `_LANES` pay off
_LANES = 512  # partial products that are computed side by side


def _numpy_product(_xp: ArrayNamespace, T: np.dtype[Any], keep_dims: bool) -> Reduction:
    """Return the kernel of Prod, which multiplies many floats in parallel lanes, unlike NumPy."""
    plain = _numpy_sum(np.multiply)(_xp, T, keep_dims)
    if T.kind != "f" or is_narrow(T):
        return plain

    def product(x: Value, indices: Value) -> Value:
        if x.size < _MIN_LANE_ELEMENTS:
            return plain(x, indices)
        axes = _axes(x, indices)
        if are_short(x) and axes == (x.ndim - 1,):
            return reduced(np.multiply, x, T, keep_dims=keep_dims)
        if not axes or not x.flags.c_contiguous or set(axes) != set(range(min(axes), x.ndim)):
            return plain(x, indices)
        first = min(axes)
        rows = x.reshape(math.prod(x.shape[:first]), -1)
        products = _product_of_all(rows) if rows.shape[0] == 1 else _products_of_rows(rows)
        return products.reshape(x.shape[:first] + (1,) * (len(axes) if keep_dims else 0))

    return product


def _product_of_all(row: Value) -> Value:
    """Multiply the elements of one row: in lanes, then the lanes and the remaining elements."""
    flat = row.reshape(-1)
    whole = flat.size - flat.size % _LANES
    lanes = np.multiply.reduce(flat[:whole].reshape(-1, _LANES), 0)
    return np.multiply.reduce(np.concatenate([lanes, flat[whole:]]), keepdims=True)


def _products_of_rows(rows: Value) -> Value:
    """Multiply the elements of each row: one half by the other, until one element is left."""
    while rows.shape[1] > 1:
        half = rows.shape[1] // 2
        halves = rows[:, :half] * rows[:, half : 2 * half]
        if rows.shape[1] % 2:
            halves[:, 0] *= rows[:, -1]
        rows = halves
    return rows[:, 0]


def _numpy_logic(ufunc: np.ufunc) -> Callable[..., Reduction]:
    def make(_xp: ArrayNamespace, keep_dims: bool) -> Reduction:
        reduce: Any = ufunc.reduce
        return lambda x, indices: reduce(x, _axes(x, indices), None, None, keep_dims)

    return make


def _numpy_extreme(ufunc: np.ufunc, empty_value: EmptyValue) -> Callable[..., Reduction]:
    def make(_xp: ArrayNamespace, T: np.dtype[Any], keep_dims: bool) -> Reduction:
        reduce: Any = ufunc.reduce
        start = empty_value(T)

        def extreme(x: Value, indices: Value) -> Value:
            axes = _axes(x, indices)
            if are_short(x) and axes == (x.ndim - 1,):
                return reduced(ufunc, x, None, keep_dims=keep_dims)
            if x.size:
                return reduce(x, axes, None, None, keep_dims)
            return reduce(x, axes, None, None, keep_dims, start)

        return extreme

    return make


def _numpy_mean(_xp: ArrayNamespace, T: np.dtype[Any], keep_dims: bool) -> Reduction:
    sum_type = _mean_accumulator(T)
    reduce: Any = np.add.reduce
    divide = _integer_quotient if T.kind in "iu" else operator.truediv

    def mean(x: Value, indices: Value) -> Value:
        axes = _axes(x, indices, sum_type)
        if are_short(x) and axes == (x.ndim - 1,):
            total = reduced(np.add, x, sum_type, keep_dims=keep_dims)
        else:
            total = reduce(x, axes, sum_type, None, keep_dims)
        return divide(total, sum_type.type(_divisor(x.shape, axes, T)))

    return mean if sum_type == T else lambda x, indices: mean(x, indices).astype(T)


def _integer_quotient(total: Value, count: Value) -> Value:
    """Divide integers and truncate."""
    return np.floor_divide(total - np.fmod(total, count), count)


def _numpy_table() -> KernelTable:
    makers: dict[str, Callable[..., Reduction]] = {
        "Sum": _numpy_sum(np.add),
        "Prod": _numpy_product,
        "Max": _numpy_extreme(np.maximum, lowest),
        "Min": _numpy_extreme(np.minimum, highest),
        "All": _numpy_logic(np.logical_and),
        "Any": _numpy_logic(np.logical_or),
        "Mean": _numpy_mean,
    }
    return KernelTable(
        KernelDef(ops=(op,), function=make, backend="numpy", static=_STATIC, make=True)
        for op, make in makers.items()
    )


NUMPY = _numpy_table()


@kernel("Sum", static=_STATIC)
def sum_(
    xp: ArrayNamespace, x: Value, indices: Value, *, T: np.dtype[Any], keep_dims: bool
) -> Value:
    """Add over axes; narrow floats are added in float32."""
    sum_type = accumulator(T)
    axes = _axes(x, indices, sum_type)
    return xp.sum(x, axis=axes, dtype=sum_type, keepdims=keep_dims).astype(T)


@kernel("Prod", static=_STATIC)
def prod(
    xp: ArrayNamespace, x: Value, indices: Value, *, T: np.dtype[Any], keep_dims: bool
) -> Value:
    """Multiply over axes; narrow floats are multiplied in float32."""
    sum_type = accumulator(T)
    axes = _axes(x, indices, sum_type)
    return xp.prod(x, axis=axes, dtype=sum_type, keepdims=keep_dims).astype(T)


@kernel("Max", static=_STATIC)
def max_(
    xp: ArrayNamespace, x: Value, indices: Value, *, T: np.dtype[Any], keep_dims: bool
) -> Value:
    """Take the maximum over axes; if empty, minus infinity or the smallest integer."""
    return xp.max(x, axis=_axes(x, indices), keepdims=keep_dims, initial=lowest(T))


@kernel("Min", static=_STATIC)
def min_(
    xp: ArrayNamespace, x: Value, indices: Value, *, T: np.dtype[Any], keep_dims: bool
) -> Value:
    """Take the minimum over axes; if empty, infinity or the largest integer."""
    return xp.min(x, axis=_axes(x, indices), keepdims=keep_dims, initial=highest(T))


@kernel("All", static=_STATIC)
def all_(xp: ArrayNamespace, x: Value, indices: Value, *, keep_dims: bool) -> Value:
    """Return whether all elements over axes are true; true if there are none."""
    return xp.all(x, axis=_axes(x, indices), keepdims=keep_dims)


@kernel("Any", static=_STATIC)
def any_(xp: ArrayNamespace, x: Value, indices: Value, *, keep_dims: bool) -> Value:
    """Return whether any element over axes is true; false if there are none."""
    return xp.any(x, axis=_axes(x, indices), keepdims=keep_dims)


@kernel("Mean", static=_STATIC)
def mean(
    xp: ArrayNamespace, x: Value, indices: Value, *, T: np.dtype[Any], keep_dims: bool
) -> Value:
    """Average over axes; integers are added in 64 bits and the quotient is truncated."""
    sum_type = _mean_accumulator(T)
    axes = _axes(x, indices, sum_type)
    total = xp.sum(x, axis=axes, dtype=sum_type, keepdims=keep_dims)
    divisor = sum_type.type(_divisor(x.shape, axes, T))
    if T.kind in "iu":
        return xp.floor_divide(total - xp.fmod(total, divisor), divisor).astype(T)
    return (total / divisor).astype(T)


@kernel("EuclideanNorm", static=_STATIC)
def euclidean_norm(
    xp: ArrayNamespace, x: Value, indices: Value, *, T: np.dtype[Any], keep_dims: bool
) -> Value:
    """Take the square root of the sum of squared magnitudes over axes."""
    sum_type = accumulator(T)
    axes = _axes(x, indices, sum_type)
    wide = x.astype(sum_type)
    squares = wide * xp.conj(wide) if T.kind == "c" else wide * wide
    total = xp.sum(squares, axis=axes, dtype=sum_type, keepdims=keep_dims)
    return xp.sqrt(total).astype(T)


@kernel("ArgMax", static=("dimension",))
def arg_max(xp: ArrayNamespace, x: Value, dimension: Value, *, output_type: np.dtype[Any]) -> Value:
    """Return the index of the first largest element along an axis; NaN counts as the smallest."""
    x = _without_nan(xp, x, -np.inf)
    return xp.argmax(x, axis=_checked_dimension(x, dimension)).astype(output_type)


@kernel("ArgMin", static=("dimension",))
def arg_min(xp: ArrayNamespace, x: Value, dimension: Value, *, output_type: np.dtype[Any]) -> Value:
    """Return the index of the first smallest element along an axis; NaN counts as the largest."""
    x = _without_nan(xp, x, np.inf)
    return xp.argmin(x, axis=_checked_dimension(x, dimension)).astype(output_type)


def _without_nan(xp: ArrayNamespace, x: Value, replacement: float) -> Value:
    """Replace NaN, which TensorFlow skips and NumPy and JAX treat as the extremum."""
    if x.dtype.kind in "iub" or (is_numpy(xp) and not np.isnan(x).any()):
        return x
    return xp.where(xp.isnan(x), x.dtype.type(replacement), x)


def _checked_dimension(x: Value, dimension: Value) -> int:
    axis = checked_axis(scalar_int("dimension", dimension), x.ndim, "dimension")
    if x.shape[axis] == 0:
        raise InvalidArgumentError(f"Reduction axis {axis} is empty in shape {shape_text(x.shape)}")
    return axis
