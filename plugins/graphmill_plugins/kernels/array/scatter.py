"""Scattering into tensors by index vectors, on NumPy.

Semantics: tensorflow/core/kernels/scatter_nd_op.cc. Indices outside of the tensor raise unless the
policy is "IGNORE".
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import KernelDef, KernelTable, kernel
from graphmill_plugins.kernels._runs import are_short, combine_in_turns, run_starts, without_nan
from graphmill_plugins.kernels._support import checked_shape, is_string, shape_text
from graphmill_plugins.kernels.array.gather import bad_vector, ignores_bad_indices, outside

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value


_FEW = 64  # up to here sorting costs more than the slow path of `ufunc.at`


def check_scatter(shape: tuple[int, ...], indices: Value, updates: Value) -> None:
    """Check that updates fit the slices of `shape` that the index vectors point to.

    Raises:
        InvalidArgumentError: they do not; names the shapes.
    """
    if indices.shape == (0,) and not updates.size and updates.shape == shape:
        return  # nothing into nothing
    if indices.ndim < 2 or not shape:
        raise InvalidArgumentError(
            "Indices must be at least a matrix of index vectors and the output shape a vector, got "
            f"{shape_text(indices.shape)} and {shape_text(shape)}"
        )
    depth = indices.shape[-1]
    if depth > len(shape):
        raise InvalidArgumentError(
            f"The index vectors of length {depth} are longer than the output shape "
            f"{shape_text(shape)}"
        )
    wanted = indices.shape[:-1] + shape[depth:]
    if updates.shape != wanted:
        raise InvalidArgumentError(
            f"Shape of updates {shape_text(updates.shape)} does not fit indices of shape "
            f"{shape_text(indices.shape)} into output shape {shape_text(shape)}; expected "
            f"{shape_text(wanted)}"
        )
    if updates.size and not indices.size:
        raise InvalidArgumentError(
            f"Updates of shape {shape_text(updates.shape)} are given, but indices of shape "
            f"{shape_text(indices.shape)} have no number"
        )


def _flat_rows(
    shape: tuple[int, ...], indices: Value, updates: Value, ignore: bool
) -> tuple[Value, Value]:
    """Return the number of the row that each index vector points to, and the updates as rows."""
    depth = indices.shape[-1]
    vectors = indices.reshape((math.prod(indices.shape[:-1]), depth))
    rows = updates.reshape((vectors.shape[0], math.prod(shape[depth:])))
    bad = outside(vectors, shape[:depth])
    if bad.any():
        if not ignore:
            raise bad_vector(indices, bad.reshape(indices.shape[:-1]), shape)
        vectors, rows = vectors[~bad], rows[~bad]
    weights = [math.prod(shape[axis + 1 : depth]) for axis in range(depth)]
    return vectors.astype(np.int64) @ np.array(weights, np.int64), rows


def scatter(
    ufunc: np.ufunc | None, target: Value, indices: Value, updates: Value, ignore: bool
) -> Value:
    """Combine updates into a contiguous array that the caller owns; None assigns, the last wins."""
    check_scatter(target.shape, indices, updates)
    places, rows = _flat_rows(target.shape, indices, updates, ignore)
    flat = target.reshape((math.prod(target.shape[: indices.shape[-1]]), rows.shape[1]))
    if ufunc is None:
        flat[places] = rows
    elif rows.size:
        _combine_into(ufunc, flat, places, without_nan(ufunc, rows))
    return target


def _combine_into(ufunc: np.ufunc, target: Value, places: Value, rows: Value) -> None:
    """Combine rows into the rows of `target`; several for one place one after the other."""
    if rows.shape[1] == 1:
        ufunc.at(target[:, 0], places, rows[:, 0])  # has a quick path for one dimension only
    elif rows.shape[0] <= _FEW or target.dtype.kind in "Ob":
        ufunc.at(target, places, rows)
    else:
        among = np.add if ufunc is np.subtract else ufunc
        order = np.argsort(places, kind="stable")
        ids = places[order]
        starts = run_starts(ids)
        if are_short(starts, ids.size):
            combine_in_turns(ufunc, target, ids, starts, rows, order)
            return
        sums = among.reduceat(rows[order], starts, axis=0, dtype=target.dtype)
        target[ids[starts]] = ufunc(target[ids[starts]], sums)


@kernel("ScatterNd", backend="numpy", static=("shape",), make=True)
def scatter_nd(T: np.dtype[Any], bad_indices_policy: str) -> Callable[[Value, Value, Value], Value]:
    """Add updates into zeros of `shape`; strings are joined, truth values combined by or."""
    ignore = ignores_bad_indices(bad_indices_policy)

    def spread(indices: Value, updates: Value, shape: Value) -> Value:
        sizes = checked_shape(shape)
        target = np.full(sizes, b"", T) if is_string(T) else np.zeros(sizes, T)
        return scatter(np.add, target, indices, updates, ignore)

    return spread


def _tensor_scatter(
    ufunc: np.ufunc | None,
) -> Callable[..., Callable[[Value, Value, Value], Value]]:
    def make(
        _xp: ArrayNamespace, bad_indices_policy: str
    ) -> Callable[[Value, Value, Value], Value]:
        ignore = ignores_bad_indices(bad_indices_policy)

        def update(tensor: Value, indices: Value, updates: Value) -> Value:
            return scatter(ufunc, np.array(tensor, order="C"), indices, updates, ignore)

        return update

    return make


TENSOR_SCATTER = KernelTable(
    KernelDef(ops=(op,), function=_tensor_scatter(ufunc), backend="numpy", make=True)
    for op, ufunc in {
        "TensorScatterUpdate": None,
        "TensorScatterAdd": np.add,
        "ScatterNdNonAliasingAdd": np.add,
        "TensorScatterSub": np.subtract,
        "TensorScatterMin": np.minimum,
        "TensorScatterMax": np.maximum,
    }.items()
)


def check_inplace(x: Value, i: Value, v: Value) -> None:
    """Check that `v` has a row of `x` for each number in `i`.

    Raises:
        InvalidArgumentError: it has not.
    """
    if i.ndim > 1 or not x.ndim or v.shape[1:] != x.shape[1:]:
        raise InvalidArgumentError(
            f"rows of shape {shape_text(v.shape)} do not fit x of shape {shape_text(x.shape)}"
        )
    if i.ndim and v.shape[:1] != i.shape:
        raise InvalidArgumentError(
            f"i and v do not match in size: {shape_text(i.shape)} and {shape_text(v.shape)}"
        )


def _inplace(ufunc: np.ufunc | None) -> Callable[..., Value]:
    def update(_xp: ArrayNamespace, x: Value, i: Value, v: Value) -> Value:
        check_inplace(x, i, v)
        result = np.array(x)
        rows = i % x.shape[0] if x.shape[0] else i
        if ufunc is None:
            result[rows] = v
        else:
            ufunc.at(result, rows, v)
        return result

    return update


INPLACE = KernelTable(
    KernelDef(ops=(op,), function=_inplace(ufunc), backend="numpy")
    for op, ufunc in {
        "InplaceUpdate": None,
        "InplaceAdd": np.add,
        "InplaceSub": np.subtract,
    }.items()
)
