"""Declare gathers, scatters and slice writes, and create their kernels for a backend.

A backend provides functions of arrays; `index_plan` has checked their arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import KernelDef, KernelTable
from graphmill_plugins.kernels._support import check_size, checked_shape, on_objects
from graphmill_plugins.kernels.array.index_plan import (
    check_inplace,
    check_scatter,
    gather_axis,
    ignores_bad_indices,
    index_maker,
    vector_sizes,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from graphmill.spi import ArrayNamespace, Value
    from graphmill_plugins.kernels.array.index_plan import Index, IndexMaker

    Dtype = np.dtype[Any]
    Gather = Callable[[Value, Value, int], Value]
    Scatter = Callable[[Value, Value, Value], Value]

TENSOR_SCATTERS: Final = {
    "TensorScatterUpdate": "set",
    "TensorScatterAdd": "add",
    "ScatterNdNonAliasingAdd": "add",
    "TensorScatterSub": "subtract",
    "TensorScatterMin": "min",
    "TensorScatterMax": "max",
}
INPLACE: Final = {"InplaceUpdate": "set", "InplaceAdd": "add", "InplaceSub": "subtract"}
_INPLACE_TYPES: Final = {
    "InplaceUpdate": (*dtypes.NUMERIC, dtypes.bool, dtypes.string),
    "InplaceAdd": dtypes.NUMERIC,
    "InplaceSub": dtypes.NUMERIC,
}


def gather_kernels(
    backend: str,
    xp: ArrayNamespace,
    *,
    gather: Callable[[Dtype, int], Gather],
    at_vectors: Callable[[Dtype, bool], Callable[[Value, Value, tuple[int, ...]], Value]],
) -> KernelTable:
    """Return a backend's gather kernels.

    Args:
        backend: name of the backend.
        xp: its array namespace.
        gather: called with the element type and the number of batch dimensions; returns a function
            that takes slices along an axis.
        at_vectors: called with the element type and whether vectors out of range give zeros;
            returns a function that takes slices at index vectors into dimensions of given sizes.
    """

    def rows(Tparams: Dtype) -> Callable[[Value, Value], Value]:
        take = gather(Tparams, 0)

        def run(params: Value, indices: Value) -> Value:
            if params.ndim == 0:
                raise InvalidArgumentError("params must be at least 1 dimensional")
            return take(params, indices, 0)

        return run

    def slices(Tparams: Dtype, batch_dims: int) -> Callable[[Value, Value, Value], Value]:
        take = gather(Tparams, batch_dims)
        return lambda params, indices, axis: take(params, indices, gather_axis(axis, params.ndim))

    def vectors(Tparams: Dtype, bad_indices_policy: str) -> Callable[[Value, Value], Value]:
        take = at_vectors(Tparams, ignores_bad_indices(bad_indices_policy))

        def run(params: Value, indices: Value) -> Value:
            sizes = vector_sizes(params.shape, indices.shape)
            if not sizes:
                if params.ndim == 0:
                    raise InvalidArgumentError("params must be at least a vector")
                return xp.broadcast_to(params, indices.shape[:-1] + params.shape)
            return take(params, indices, sizes)

        return on_objects(run, Tparams)

    return KernelTable(
        (
            KernelDef(("Gather",), rows, backend, make=True),
            KernelDef(("GatherV2",), slices, backend, static=("axis",), make=True),
            KernelDef(("GatherNd",), vectors, backend, make=True),
        )
    )


def scatter_kernels(
    backend: str,
    *,
    scatter: Callable[[str, bool], Scatter],
    own: Callable[[Value], Value],
    zeros: Callable[[tuple[int, ...], Dtype], Value],
    inplace: Callable[[str], Scatter],
) -> KernelTable:
    """Return a backend's tensor scatter kernels.

    Args:
        backend: name of the backend.
        scatter: called with the operation and whether vectors out of range are ignored; returns a
            function that combines updates into a tensor, which it may overwrite.
        own: returns a tensor that may be overwritten.
        zeros: returns zeros, or empty strings.
        inplace: called with the operation; returns a function that combines rows into those of a
            tensor.
    """

    def spread(T: Dtype, bad_indices_policy: str) -> Callable[[Value, Value, Value], Value]:
        combine = scatter("add", ignores_bad_indices(bad_indices_policy))

        def run(indices: Value, updates: Value, shape: Value) -> Value:
            sizes = checked_shape(shape)
            check_size(sizes, itemsize=T.itemsize)
            check_scatter(sizes, indices.shape, updates.shape)
            return combine(zeros(sizes, T), indices, updates)

        return run

    def into_tensor(how: str) -> Callable[[str], Scatter]:
        def make(bad_indices_policy: str) -> Scatter:
            combine = scatter(how, ignores_bad_indices(bad_indices_policy))

            def run(tensor: Value, indices: Value, updates: Value) -> Value:
                check_scatter(tensor.shape, indices.shape, updates.shape)
                return combine(own(tensor), indices, updates)

            return run

        return make

    def into_rows(how: str) -> Callable[[], Scatter]:
        def make() -> Scatter:
            combine = inplace(how)

            def run(x: Value, i: Value, v: Value) -> Value:
                check_inplace(x.shape, i.shape, v.shape)
                return combine(x, i, v)

            return run

        return make

    return KernelTable(
        (
            KernelDef(("ScatterNd",), spread, backend, static=("shape",), make=True),
            *(
                KernelDef((op,), into_tensor(how), backend, make=True)
                for op, how in TENSOR_SCATTERS.items()
            ),
            *(
                KernelDef(
                    (op,), into_rows(how), backend, types={"T": _INPLACE_TYPES[op]}, make=True
                )
                for op, how in INPLACE.items()
            ),
        )
    )


def slice_kernels(
    backend: str,
    *,
    put: Callable[[tuple[int, ...], Dtype, Index, Value], Value],
    write: Callable[[Value, Index, Value], Value],
) -> KernelTable:
    """Return a backend's kernels that write slices.

    Args:
        backend: name of the backend.
        put: returns zeros of a shape and type, with a slice set to a value of the slice's shape.
        write: returns a copy of a tensor, with a slice set to a value that may broadcast.
    """

    def gradient(T: Dtype, **masks: Any) -> Callable[[Value, Value, Value, Value, Value], Value]:
        index = _index_maker(**masks)

        def run(shape: Value, begin: Value, end: Value, strides: Value, dy: Value) -> Value:
            sizes = checked_shape(shape)
            check_size(sizes, itemsize=T.itemsize)
            return put(sizes, T, index(sizes, begin, end, strides), dy)

        return run

    def update(**masks: Any) -> Callable[[Value, Value, Value, Value, Value], Value]:
        index = _index_maker(**masks)
        return lambda x, begin, end, strides, value: write(
            x, index(x.shape, begin, end, strides), value
        )

    bounds = ("begin", "end", "strides")
    return KernelTable(
        (
            KernelDef(
                ("StridedSliceGrad",), gradient, backend, static=("shape", *bounds), make=True
            ),
            KernelDef(("TensorStridedSliceUpdate",), update, backend, static=bounds, make=True),
        )
    )


def _index_maker(
    *,
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
    **_others: Any,
) -> IndexMaker:
    return index_maker(begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
