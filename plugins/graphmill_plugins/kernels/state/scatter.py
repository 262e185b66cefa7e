"""Gathers and scatters on variables, in ref and resource forms.

Semantics: tensorflow/core/kernels/resource_variable_ops.cc, scatter_op.cc, scatter_nd_op.cc,
gather_nd_op.h. An update does not change values that were read before: it makes a new array unless
only the variable refers to the old one (graphmill.runtime.resources.exclusive_update).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes, errors
from graphmill.spi import KernelDef, KernelTable, kernel
from graphmill.spi.kernels import writable
from graphmill_plugins.kernels._support import check_size, namespace_of, shape_text
from graphmill_plugins.kernels.math.division import truncated_quotient
from graphmill_plugins.kernels.segment_reduce import (
    are_short,
    combine_in_rounds,
    run_starts,
    without_nan,
)
from graphmill_plugins.kernels.state.resource import variable_of
from graphmill_plugins.kernels.state.value import initialized

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import OpKernelContext, Ref, Value, Variable

_MAX_UNSORTED_UPDATES = 8  # up to so many updates, sorting them takes longer than it saves
_UFUNCS: dict[str, np.ufunc] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Min": np.minimum,
    "Max": np.maximum,
}
# JAX's method for each indexed update: `array.at[index].add(updates)`.
_AT_METHODS = {
    "Update": "set",
    "Add": "add",
    "Sub": "subtract",
    "Mul": "multiply",
    "Div": "divide",
    "Min": "min",
    "Max": "max",
}


def check_indices(indices: Any, limit: int) -> None:
    """Raise InvalidArgumentError unless all `indices` are in [0, limit)."""
    wrong = (indices < 0) | (indices >= limit)
    if wrong.any():
        position = tuple(int(axis) for axis in np.argwhere(wrong)[0])
        where = ",".join(map(str, position))
        raise errors.InvalidArgumentError(
            f"indices[{where}] = {int(indices[position])} is not in [0, {limit})"
        )


def _split_nd(indices: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return one index array for each leading axis that the index vectors address.

    The index vectors lie along the last axis of `indices`.

    Raises:
        InvalidArgumentError: an index vector is too long, or points outside `shape`.
    """
    if indices.ndim < 1:
        raise errors.InvalidArgumentError("indices must have at least one axis, got a scalar")
    depth = indices.shape[-1]
    if depth > len(shape):
        raise errors.InvalidArgumentError(
            f"index innermost dimension length must be <= params rank; saw: {depth} "
            f"vs. {len(shape)}"
        )
    wrong = ((indices < 0) | (indices >= np.array(shape[:depth], indices.dtype))).any(axis=-1)
    if wrong.any():
        position = tuple(int(axis) for axis in np.argwhere(wrong)[0])
        raise errors.InvalidArgumentError(
            f"indices[{','.join(map(str, position))}] = {indices[position].tolist()} does not "
            f"index into shape {shape_text(shape)}"
        )
    return tuple(np.moveaxis(indices, -1, 0))


def scatter(operation: str, variable: Variable, index: Any, updates: Value) -> None:
    """Apply `updates` to the variable at `index`; repeated indices are applied in order.

    The caller holds the lock and has checked the indices.
    """
    is_division = operation == "Div" and variable.dtype.is_integer
    if is_division and np.any(updates == 0):
        raise errors.InvalidArgumentError("Integer division by zero")
    if not isinstance(variable.value, (np.ndarray, np.generic)):
        variable.value = _scattered(operation, variable.value, index, updates)
        return
    with writable(variable) as changed:
        if operation == "Update":
            changed[index] = updates
        elif is_division:
            _divide(changed, index, updates)
        else:
            bits = operation == "Sub" and changed.dtype == np.bool_
            ufunc = np.logical_xor if bits else _UFUNCS[operation]
            _combine_into(ufunc, changed, index, without_nan(ufunc, updates))


def _combine_into(ufunc: np.ufunc, current: Any, index: Any, updates: Any) -> None:
    """Combine updates into an array at `index`: one index array, or one for each axis."""
    if (
        isinstance(index, np.ndarray)
        and index.size > _MAX_UNSORTED_UPDATES
        and current.ndim > 1
        and updates.ndim
    ):
        flat = index.reshape(-1)
        order = np.argsort(flat, kind="stable")
        ids = flat[order]
        starts = run_starts(ids)
        if are_short(starts, ids.size):
            rows = updates.reshape((ids.size, *current.shape[1:]))
            combine_in_rounds(ufunc, current, ids, starts, rows, order)
            return
    ufunc.at(current, index, updates)


def _scattered(operation: str, value: Any, index: Any, updates: Any) -> Any:
    """Return an updated copy of a device's array.

    Booleans are added by `or` and subtracted modulo 2, as NumPy does.
    """
    if value.dtype == np.bool_ and operation in ("Add", "Sub"):
        rows = value.astype(np.int32).at[index]
        number = updates.astype(np.int32)
        changed = rows.max(number) if operation == "Add" else rows.add(number) & 1
        return changed.astype(np.bool_)
    if operation == "Div" and value.dtype.kind in "iu":  # in order, which devices do not offer
        changed = np.array(value)
        _divide(changed, index, updates)
        return value.__array_namespace__().asarray(changed)
    if operation in ("Min", "Max"):
        updates = without_nan(_UFUNCS[operation], updates, value.__array_namespace__())
    return getattr(value.at[index], _AT_METHODS[operation])(updates)


def _divide(current: Any, index: Any, updates: Any) -> None:
    """Divide integers of an array at `index` by updates, one after the other, towards zero."""
    for key, divisor in _pairs(current, index, updates):
        current[key] = truncated_quotient(current[key], divisor)


def _pairs(current: Any, index: Any, updates: Any) -> Any:
    """Yield (index, update) pairs, for operations without an in-place ufunc."""
    first = index[0] if isinstance(index, tuple) else index
    rest = current.shape[len(index) if isinstance(index, tuple) else 1 :]
    updates = np.broadcast_to(updates, (*np.shape(first), *rest))
    for position in np.ndindex(np.shape(first)):
        key = (
            tuple(axis[position] for axis in index) if isinstance(index, tuple) else index[position]
        )
        yield key, updates[position]


def _scatter_rows(operation: str, variable: Variable, indices: Any, updates: Any) -> None:
    with variable.lock:
        shape = initialized(variable).shape
        if len(shape) < 1:
            raise errors.InvalidArgumentError(
                f"params must be at least 1-D, got shape {shape_text(shape)}"
            )
        if updates.shape not in ((), (*indices.shape, *shape[1:])):
            raise errors.InvalidArgumentError(
                "Must have updates.shape = indices.shape + params.shape[1:] or "
                f"updates.shape = [], got updates.shape {shape_text(updates.shape)}, "
                f"indices.shape {shape_text(indices.shape)}, "
                f"params.shape {shape_text(shape)}"
            )
        indices = np.asarray(indices)
        check_indices(indices, shape[0])
        scatter(operation, variable, indices, updates)


def _scatter_nd(
    operation: str, variable: Variable, indices: Any, updates: Any, policy: str
) -> None:
    with variable.lock:
        shape = initialized(variable).shape
        indices = np.asarray(indices)
        if indices.ndim < 1:
            raise errors.InvalidArgumentError("Indices shape must have rank at least one")
        if indices.ndim == 1:  # for variables, unlike tensors, a vector holds scalar indices
            indices = indices[:, None]
        depth = indices.shape[-1]
        if updates.shape != (*indices.shape[:-1], *shape[depth:]):
            raise errors.InvalidArgumentError(
                "Must have updates.shape = indices.shape[:batch_dim] + "
                f"params_shape[slice_dim:], got updates.shape: {shape_text(updates.shape)}, "
                f"indices.shape: {shape_text(indices.shape)}, "
                f"params_shape: {shape_text(shape)}, slice_dim: {depth}"
            )
        if updates.size and not indices.size:
            raise errors.InvalidArgumentError(
                "Indices and updates specified for empty output. indices shape: "
                f"{shape_text(indices.shape)}"
            )
        if policy == "IGNORE":
            inside = (indices >= 0) & (indices < np.array(shape[:depth], indices.dtype))
            keep = inside.all(axis=-1)
            indices, updates = indices[keep], updates[keep]
        scatter(operation, variable, _split_nd(indices, shape), updates)


def _ref_rows(operation: str) -> Callable[..., Ref]:
    def run(ctx: OpKernelContext, ref: Ref, indices: Any, updates: Any) -> Ref:
        del ctx
        _scatter_rows(operation, ref, indices, updates)
        return ref

    return run


def _resource_rows(operation: str) -> Callable[..., None]:
    def run(ctx: OpKernelContext, resource: Any, indices: Any, updates: Any) -> None:
        del ctx
        variable = variable_of(resource)
        if operation == "Div" and np.any(updates == 0):
            raise errors.InvalidArgumentError("updates must not contain 0")
        # For empty indices, TensorFlow compares the ranks only.
        ranks = (0, np.ndim(indices) + np.ndim(variable.value) - 1)
        if indices.size or updates.ndim not in ranks:
            _scatter_rows(operation, variable, indices, updates)

    return run


def _ref_nd(operation: str) -> Callable[..., Ref]:
    def run(
        ctx: OpKernelContext, ref: Ref, indices: Any, updates: Any, bad_indices_policy: str
    ) -> Ref:
        del ctx
        _scatter_nd(operation, ref, indices, updates, bad_indices_policy)
        return ref

    return run


def _resource_nd(operation: str) -> Callable[..., None]:
    def run(
        ctx: OpKernelContext, ref: Any, indices: Any, updates: Any, bad_indices_policy: str
    ) -> None:
        del ctx
        _scatter_nd(operation, variable_of(ref), indices, updates, bad_indices_policy)

    return run


def _definition(op: str, function: Callable[..., Any]) -> KernelDef:
    function.__name__ = function.__qualname__ = op
    return KernelDef(ops=(op,), function=function, stateful=True, effects=frozenset({"state"}))


scatter_kernels = KernelTable()
for _operation in _AT_METHODS:
    scatter_kernels += [
        _definition(f"Scatter{_operation}", _ref_rows(_operation)),
        _definition(f"ResourceScatter{_operation}", _resource_rows(_operation)),
    ]
    if _operation in ("Update", "Add", "Sub", "Min", "Max"):
        scatter_kernels += [
            _definition(f"ScatterNd{_operation}", _ref_nd(_operation)),
            _definition(f"ResourceScatterNd{_operation}", _resource_nd(_operation)),
        ]


def _check_dtype(params: Value, dtype: np.dtype[Any]) -> None:
    """Raise an error for a node that gathers from a variable of another type."""
    if params.dtype != dtype:
        raise errors.InvalidArgumentError(
            f"Trying to read variable with wrong dtype. Expected "
            f"{dtypes.as_dtype(params.dtype).name} got {dtypes.as_dtype(dtype).name}"
        )


@kernel("ResourceGather", stateful=True, effects=("state",))
def resource_gather(
    ctx: OpKernelContext, resource: Value, indices: Value, batch_dims: int, dtype: np.dtype[Any]
) -> Value:
    """Return the rows of the variable at `indices`, within each of the leading batch axes."""
    params = variable_of(resource).value
    _check_dtype(params, dtype)
    indices = np.asarray(indices)
    if params.ndim <= batch_dims:
        raise errors.InvalidArgumentError(
            f"params must be at least {batch_dims + 1} dimensional, got shape "
            f"{shape_text(params.shape)}"
        )
    check_indices(indices, params.shape[batch_dims])
    rest = params.shape[batch_dims + 1 :]
    check_size((*indices.shape, *rest), "the gathered rows", itemsize=params.dtype.itemsize)
    if batch_dims == 0:
        return namespace_of(ctx.xp, params).take(params, indices, axis=0)
    if params.shape[:batch_dims] != indices.shape[:batch_dims]:
        raise errors.InvalidArgumentError(
            f"params.shape[:{batch_dims}] {shape_text(params.shape[:batch_dims])} should be "
            f"equal to indices.shape[:{batch_dims}] {shape_text(indices.shape[:batch_dims])}"
        )
    leading = np.ogrid[tuple(slice(size) for size in params.shape[:batch_dims])]
    tail = (1,) * (indices.ndim - batch_dims)
    return params[(*(axis.reshape(axis.shape + tail) for axis in leading), indices)]


@kernel("ResourceGatherNd", stateful=True, effects=("state",))
def resource_gather_nd(
    ctx: OpKernelContext, resource: Value, indices: Value, dtype: np.dtype[Any]
) -> Value:
    """Return the slices of the variable that the vectors along the last axis point to."""
    params, vectors = initialized(variable_of(resource)), np.asarray(indices)
    _check_dtype(params, dtype)
    vectors_by_axis = _split_nd(vectors, params.shape)
    shape = (*vectors.shape[:-1], *params.shape[vectors.shape[-1] :])
    check_size(shape, "the gathered slices", itemsize=params.dtype.itemsize)
    if not params.size and math.prod(vectors.shape[:-1]):
        raise errors.InvalidArgumentError(
            "Requested more than 0 entries, but params is empty. Params shape: "
            f"{shape_text(params.shape)}"
        )
    if not vectors_by_axis:
        xp = namespace_of(ctx.xp, params)
        return xp.broadcast_to(params, vectors.shape[:-1] + params.shape)
    return params[vectors_by_axis]
