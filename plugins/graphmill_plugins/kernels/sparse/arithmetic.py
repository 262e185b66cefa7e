"""Sums, products, reductions and softmax of sparse tensors.

Semantics: tensorflow/core/kernels/sparse_add_op.cc, sparse_add_grad_op.cc,
sparse_tensor_dense_add_op.cc, sparse_dense_binary_op_shared.cc, sparse_sparse_binary_op_shared.cc,
sparse_reduce_op.cc, sparse_softmax_op.cc.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import KernelDef, KernelTable, kernel
from graphmill.spi.kernels import cancellable
from graphmill_plugins.kernels._support import check_size, in_float32, is_narrow, shape_text
from graphmill_plugins.kernels.math.division import truncated_quotient
from graphmill_plugins.kernels.math.segment import combine_sorted
from graphmill_plugins.kernels.segment_reduce import run_lengths, run_starts
from graphmill_plugins.kernels.sparse._sparse import (
    are_in_order,
    check_bounds,
    check_parts,
    flat_positions,
    from_positions,
    order_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Value

_MAX_SINGLE_SUMS = 2000  # elements that are added one by one as fast as run by run
_MAX_FEW, _MAX_FEW_TOTALS = 5, 16  # elements and results up to which NumPy calls take longer
_EXACT_IN_PYTHON = "ilqd"  # types whose sums Python computes with the same results
_REAL = {"T": dtypes.REAL}
_NUMBERS = {"T": dtypes.NUMERIC}
_SUMMED = {
    "T": (
        *(dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128),
        *(dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64),
    )
}


def _check_pair(
    a: tuple[Value, Value, Value], b: tuple[Value, Value, Value]
) -> tuple[tuple[int, ...], Any, Any]:
    """Check two sparse tensors of one shape; return its sizes, and the flat positions of both."""
    sizes = check_parts(*a, "a")
    others = check_parts(*b, "b")
    if sizes != others:
        raise InvalidArgumentError(
            f"Operands' shapes do not match: got {list(sizes)} and {list(others)}"
        )
    check_bounds(a[0], sizes, "a_indices")
    check_bounds(b[0], sizes, "b_indices")
    return sizes, flat_positions(a[0], sizes), flat_positions(b[0], sizes)


@kernel("SparseAdd", types=_SUMMED, host=True)
def sparse_add(
    a_indices: Value,
    a_values: Value,
    a_shape: Value,
    b_indices: Value,
    b_values: Value,
    b_shape: Value,
    thresh: Value,
) -> tuple[Value, Value, Value]:
    """Add two sparse tensors; omit sums below the threshold where both have an element."""
    if np.ndim(thresh):
        raise InvalidArgumentError(
            f"The magnitude threshold must be a scalar: got shape {shape_text(np.shape(thresh))}"
        )
    sizes, first, second = _check_pair(
        (a_indices, a_values, a_shape), (b_indices, b_values, b_shape)
    )
    positions, values = _merged_sums((first, a_values), (second, b_values), thresh)
    return from_positions(positions, sizes), values, a_shape


def _merged_sums(a: tuple[Any, Value], b: tuple[Any, Value], threshold: Any) -> tuple[Any, Any]:
    """Merge two ascending runs of positions with values; where both have one, add."""
    first, second = a[0], b[0]
    order = np.argsort(np.concatenate([first, second]), kind="stable")
    positions, values = np.concatenate([first, second])[order], np.concatenate([a[1], b[1]])[order]
    is_second = order >= len(first)
    pair = np.flatnonzero((positions[1:] == positions[:-1]) & is_second[1:] & ~is_second[:-1])
    sums = values[pair] + values[pair + 1]
    values[pair] = sums
    is_kept = np.ones(len(positions), np.bool_)
    is_kept[pair + 1] = False
    is_short = sums.dtype.kind == "i" and sums.itemsize < 4  # C++ promotes these to int
    is_kept[pair] = np.abs(sums.astype(np.int32) if is_short else sums) >= threshold
    return positions[is_kept], values[is_kept]


@kernel("SparseAddGrad", types=_SUMMED, host=True)
def sparse_add_grad(
    grad: Value, a_indices: Value, b_indices: Value, sum_indices: Value
) -> tuple[Value, Value]:
    """Return the gradients of both operands' values: zero for elements that the sum omits."""
    if grad.ndim != 1 or any(part.ndim != 2 for part in (a_indices, b_indices, sum_indices)):
        raise InvalidArgumentError(
            "The gradient must be a vector and the indices matrices, got shapes "
            f"{[list(part.shape) for part in (grad, a_indices, b_indices, sum_indices)]}"
        )
    if len({part.shape[1] for part in (a_indices, b_indices, sum_indices)}) > 1:
        raise InvalidArgumentError("The densified operands should have the same rank")
    if len(grad) != len(sum_indices):
        raise InvalidArgumentError(
            f"# elements of backprop_val_grad ({len(grad)}) and rows of sum_indices "
            f"({len(sum_indices)}) do not match"
        )
    sum_rows = {tuple(one): row for row, one in enumerate(cancellable(sum_indices.tolist()))}
    zero = len(grad)
    padded = np.concatenate([grad, np.zeros(1, grad.dtype)])
    return tuple(  # type: ignore[return-value]
        padded[[sum_rows.get(tuple(one), zero) for one in cancellable(part.tolist())]]
        for part in (a_indices, b_indices)
    )


@kernel("SparseTensorDenseAdd", types=_NUMBERS, host=True)
def sparse_tensor_dense_add(indices: Value, values: Value, shape: Value, dense: Value) -> Value:
    """Add a sparse tensor to a dense one of the same shape."""
    sizes = check_parts(indices, values, shape)
    if dense.shape != sizes:
        raise InvalidArgumentError(
            f"Dimensions do not match: a sparse tensor of shape {list(sizes)} and a dense one of "
            f"{list(dense.shape)}"
        )
    check_bounds(indices, sizes)
    out = dense.copy()
    np.add.at(out, tuple(indices.T), values)
    return out


def _with_dense(ufunc: Any) -> Callable[..., Value]:
    def apply(indices: Value, values: Value, shape: Value, dense: Value) -> Value:
        sizes = check_parts(indices, values, shape)
        _check_broadcast(dense.shape, sizes)
        check_bounds(indices, sizes)
        lead = len(sizes) - dense.ndim
        dense_index = tuple(
            indices[:, axis] if sizes[axis] == dense.shape[axis - lead] else 0
            for axis in range(lead, len(sizes))
        )
        divisors = dense[dense_index] if dense_index else dense
        if ufunc is np.divide:
            if np.any(divisors == 0):
                raise InvalidArgumentError("cannot divide by zero, but the dense tensor has a zero")
            if values.dtype.kind in "iu":
                return truncated_quotient(values, divisors)
        return in_float32(values.dtype, ufunc)(values, np.broadcast_to(divisors, values.shape))

    return apply


def _check_broadcast(dense: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    """Check that the dense operand broadcasts over the sparse one.

    Raises:
        InvalidArgumentError: the shapes are incompatible.
    """
    lead = len(sizes) - len(dense)
    fits = lead >= 0 and all(a in (1, b) for a, b in zip(dense, sizes[lead:], strict=True))
    if not fits:
        raise InvalidArgumentError(
            "SparseDenseBinaryOpShared broadcasts dense to sparse only; got incompatible shapes: "
            f"{shape_text(sizes)} vs. {shape_text(dense)}"
        )


WITH_DENSE = KernelTable(
    KernelDef(ops=(op,), function=_with_dense(ufunc), types=dict(_REAL), host=True)
    for op, ufunc in (
        ("SparseDenseCwiseAdd", np.add),
        ("SparseDenseCwiseMul", np.multiply),
        ("SparseDenseCwiseDiv", np.divide),
    )
)


def _extreme(ufunc: Any) -> Callable[..., tuple[Value, Value]]:
    def apply(
        a_indices: Value,
        a_values: Value,
        a_shape: Value,
        b_indices: Value,
        b_values: Value,
        b_shape: Value,
    ) -> tuple[Value, Value]:
        sizes, first, second = _check_pair(
            (a_indices, a_values, a_shape), (b_indices, b_values, b_shape)
        )
        positions = np.union1d(first, second)
        operands = []
        for flat, values in ((first, a_values), (second, b_values)):
            operand = np.zeros(len(positions), values.dtype)
            operand[np.searchsorted(positions, flat)] = values
            operands.append(operand)
        return from_positions(positions, sizes), ufunc(*operands)

    return apply


EXTREMES = KernelTable(
    KernelDef(ops=(op,), function=_extreme(ufunc), types=dict(_REAL), host=True)
    for op, ufunc in (("SparseSparseMaximum", np.maximum), ("SparseSparseMinimum", np.minimum))
)


def _reduced_axes(axes: tuple[int, ...], rank: int) -> list[int]:
    for axis in axes:
        if not -rank <= axis < rank:
            raise InvalidArgumentError(
                f"Invalid reduction dimension {axis}, for input with {rank} dimensions."
            )
    return sorted({axis % rank for axis in axes})


class _Target(NamedTuple):
    """The result of a reduction.

    Attributes:
        remaining: the axes that are not reduced.
        sizes: their sizes.
        shape: that of the result.
        element_count: the number of elements of the result.
        strides: for each axis of the input how far a step along it leads in the result.
    """

    remaining: list[int]
    sizes: tuple[int, ...]
    shape: tuple[int, ...]
    element_count: int
    strides: tuple[int, ...]


@lru_cache(maxsize=256)
def _target(sizes: tuple[int, ...], axes: tuple[int, ...], keep_dims: bool) -> _Target:
    """Return the result of reducing along axes a tensor of these sizes.

    Raises:
        InvalidArgumentError: there is no such axis.
    """
    reduced = _reduced_axes(axes, len(sizes))
    remaining = [axis for axis in range(len(sizes)) if axis not in reduced]
    kept = shape = tuple([sizes[axis] for axis in remaining])
    if keep_dims:
        shape = tuple(1 if axis in reduced else n for axis, n in enumerate(sizes))
    strides = tuple(
        math.prod(sizes[other] for other in remaining if other > axis) if axis in remaining else 0
        for axis in range(len(sizes))
    )
    return _Target(remaining, kept, shape, math.prod(kept), strides)


class _Reduction:
    """A reduction of a sparse tensor along axes.

    Attributes:
        sizes: those of the tensor.
        target: the result.
    """

    __slots__ = ("_indices", "sizes", "target")

    def __init__(
        self, indices: Value, values: Value, shape: Value, axes: Value, keep_dims: bool
    ) -> None:
        self.sizes = check_parts(indices, values, shape)
        if axes.ndim > 1:
            raise InvalidArgumentError(
                f"reduction_axes must be a scalar or vector, got shape {shape_text(axes.shape)}"
            )
        self.target = _target(self.sizes, tuple(axes.reshape(-1).tolist()), keep_dims)
        self._indices = indices

    def positions(self) -> Any:
        """Return the position of each element in the result.

        Raises:
            InvalidArgumentError: an index is out of bounds.
        """
        check_bounds(self._indices, self.sizes)
        return flat_positions(self._indices, self.target.sizes, self.target.remaining)

    def sum_of_few(self, values: Value) -> Value | None:
        """Return the sum of a few integers or doubles, which a Python loop adds fastest.

        None for an index out of bounds, or a sum that overflows.
        """
        totals = [0] * self.target.element_count
        strides, rows = self.target.strides, self._indices.tolist()
        if len(strides) == 2:  # most sparse tensors are matrices: a loop less
            (height, width), (step, small_step) = self.sizes, strides
            for (row, column), value in zip(rows, values.tolist(), strict=True):
                if not (0 <= row < height and 0 <= column < width):
                    return None
                totals[row * step + column * small_step] += value
            return self._exact_totals(totals, values.dtype)
        for indices, value in zip(rows, values.tolist(), strict=True):
            position = 0
            for index, size, stride in zip(indices, self.sizes, strides, strict=True):
                if not 0 <= index < size:
                    return None
                position += index * stride
            totals[position] += value
        return self._exact_totals(totals, values.dtype)

    def _exact_totals(self, totals: list[Any], dtype: np.dtype[Any]) -> Value | None:
        """Return totals as an array; None if one does not fit into the type."""
        try:
            return np.array(totals, dtype).reshape(self.target.shape)
        except OverflowError:
            return None

    def combined(self, ufunc: Any, values: Value) -> tuple[Any, Any]:
        """Return the positions that have elements, and their values."""
        flat = self.positions()
        if (flat[1:] < flat[:-1]).any():
            order = np.argsort(flat, kind="stable")
            flat, values = flat[order], values[order]
        starts = run_starts(flat)
        lengths = run_lengths(starts, len(flat))
        ids = np.repeat(np.arange(len(starts)), lengths)
        combined = combine_sorted(ufunc, values, ids, len(starts), 0)
        return flat[starts], combined.astype(values.dtype)


def _reduce(ufunc: Any) -> Callable[..., Value]:
    def reduce(
        indices: Value,
        values: Value,
        shape: Value,
        axes: Value,
        keep_dims: bool,
    ) -> Value:
        reduction = _Reduction(indices, values, shape, axes, keep_dims)
        target = reduction.target
        if (
            ufunc is np.add
            and len(values) <= _MAX_FEW
            and values.dtype.char in _EXACT_IN_PYTHON
            and target.element_count <= _MAX_FEW_TOTALS
            and (total := reduction.sum_of_few(values)) is not None
        ):
            return total
        check_size(target.sizes, itemsize=values.dtype.itemsize)
        out = np.zeros(target.element_count, values.dtype)
        if ufunc is np.add and len(values) <= _MAX_SINGLE_SUMS and not is_narrow(values.dtype):
            np.add.at(out, reduction.positions(), values)
        else:
            positions, combined = reduction.combined(ufunc, values)
            out[positions] = combined
        return out.reshape(target.shape)

    return reduce


def _reduce_sparse(ufunc: Any) -> Callable[..., tuple[Value, Value, Value]]:
    def reduce(
        indices: Value,
        values: Value,
        shape: Value,
        axes: Value,
        keep_dims: bool,
    ) -> tuple[Value, Value, Value]:
        reduction = _Reduction(indices, values, shape, axes, keep_dims)
        positions, combined = reduction.combined(ufunc, values)
        out_shape = reduction.target.shape
        return from_positions(positions, out_shape), combined, np.array(out_shape, np.int64)

    return reduce


REDUCTIONS = KernelTable(
    KernelDef(ops=(op,), function=make(ufunc), types=dict(types), host=True)
    for op, make, ufunc, types in (
        ("SparseReduceSum", _reduce, np.add, _NUMBERS),
        ("SparseReduceMax", _reduce, np.maximum, _REAL),
        ("SparseReduceSumSparse", _reduce_sparse, np.add, _NUMBERS),
        ("SparseReduceMaxSparse", _reduce_sparse, np.maximum, _REAL),
    )
)


@kernel("SparseSoftmax", types={"T": (dtypes.float16, dtypes.float32, dtypes.float64)}, host=True)
def sparse_softmax(indices: Value, values: Value, shape: Value) -> Value:
    """Return the softmax along the last axis over the stored elements."""
    sizes = check_parts(indices, values, shape)
    if len(sizes) < 2:
        raise InvalidArgumentError(f"Input should have rank >= 2, but got: {len(sizes)}")
    check_bounds(indices, sizes)
    if not len(values):
        return values
    rows, order = flat_positions(indices[:, :-1], sizes[:-1]), None
    if not are_in_order(indices):
        order = order_of(indices)
        rows, values = rows[order], values[order]
    starts = run_starts(rows)
    lengths = run_lengths(starts, len(rows))
    exponentials = np.exp(values - np.repeat(np.maximum.reduceat(values, starts), lengths))
    totals = np.add.reduceat(exponentials, starts, dtype=exponentials.dtype)
    exponentials /= np.repeat(totals, lengths)
    if order is None:
        return exponentials
    out = np.empty_like(exponentials)
    out[order] = exponentials
    return out
