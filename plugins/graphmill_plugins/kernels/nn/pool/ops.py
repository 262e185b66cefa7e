"""Declare the pooling ops, and create their kernels from a backend's array functions.

`pool_kernels` and `pool_gradient_kernels` read a node's attributes, plan each shape once, and lay
values out. A backend provides functions of channels-last arrays and a `PoolPlan`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from graphmill import dtypes, errors
from graphmill.spi import KernelDef, KernelTable
from graphmill_plugins.kernels._tables import named
from graphmill_plugins.kernels.nn.pool.plan import PoolWindows, check_vector, pool_windows
from graphmill_plugins.kernels.nn.window import (
    PLANS_OF_A_NODE,
    check_sizes,
    is_channels_first,
    spatial,
    vector_input,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from graphmill.spi import ArrayNamespace, Value

    Compute = Callable[..., Value]


@dataclass(frozen=True, slots=True)
class PoolOp:
    """One op of the family.

    Attributes:
        name: the op's name.
        is_max: whether it takes the maximum of a window; else the mean.
        types: its element types.
        rank: rank of its input.
        static: inputs whose values determine the shapes.
    """

    name: str
    is_max: bool
    types: tuple[Any, ...] = dtypes.FLOATING
    rank: int = 4
    static: tuple[str, ...] = ()

    @property
    def takes_sizes(self) -> bool:
        """Whether the size and strides of the windows are inputs, not attrs."""
        return "ksize" in self.static

    def windows(self, attrs: Mapping[str, Any]) -> PoolWindows:
        """Return the windows that a node's attrs specify."""
        return pool_windows(
            self.name,
            attrs["ksize"],
            attrs["strides"],
            attrs["padding"],
            attrs["data_format"],
            attrs.get("explicit_paddings", ()),
            self.rank,
        )


POOLS: Final = (
    PoolOp("MaxPool", True, dtypes.REAL),
    PoolOp("MaxPoolV2", True, dtypes.REAL, static=("ksize", "strides")),
    PoolOp("AvgPool", False),
    PoolOp("MaxPool3D", True, rank=5),
    PoolOp("AvgPool3D", False, rank=5),
)
GRADIENTS: Final = (
    PoolOp("MaxPoolGrad", True, dtypes.REAL),
    PoolOp("MaxPoolGradV2", True, dtypes.REAL, static=("ksize", "strides")),
    PoolOp("AvgPoolGrad", False, static=("orig_input_shape",)),
    PoolOp("MaxPool3DGrad", True, rank=5),
    PoolOp("AvgPool3DGrad", False, rank=5, static=("orig_input_shape",)),
)


def depth_pool(
    xp: ArrayNamespace, ksize: Sequence[int], strides: Sequence[int], data_format: str
) -> Callable[[Value], Value] | None:
    """Return the maximum over groups of channels if the window spans channels.

    Raises:
        UnimplementedError: the windows also span space, overlap, or do not divide the channels.
    """
    first = len(ksize) == 4 and is_channels_first("MaxPool", data_format)
    window, stride = (ksize[1], strides[1]) if first else (ksize[-1], strides[-1])
    if len(ksize) != 4 or window <= 1 or ksize[0] != 1:
        return None
    if set(spatial(ksize, first)) != {1} or stride != window:
        raise errors.UnimplementedError(
            "MaxPooling supports exactly one of pooling across depth or pooling across "
            f"width/height, in depth with a stride equal to the window; got ksize={list(ksize)} "
            f"and strides={list(strides)}"
        )

    def run(x: Value) -> Value:
        if x.ndim != 4:
            raise errors.InvalidArgumentError(
                f"tensor_in_shape must have 2 spatial dimensions, got {list(x.shape)}"
            )
        x = xp.moveaxis(x, 1, -1) if first else x
        if x.shape[-1] % window:
            raise errors.UnimplementedError(
                "Depthwise max pooling requires the depth window to evenly divide the input "
                f"depth, got {window} and {x.shape[-1]}"
            )
        out = xp.max(x.reshape(*x.shape[:-1], -1, window), axis=-1)
        return xp.moveaxis(out, -1, 1) if first else out

    return run


def _pool(pooling: PoolWindows, xp: ArrayNamespace, compute: Compute) -> Callable[[Value], Value]:
    windows = pooling.windows
    plan_of = lru_cache(PLANS_OF_A_NODE)(pooling.plan)

    def run(x: Value) -> Value:
        plan = plan_of(x.shape)
        x = windows.to_channels_last(xp, x)
        out = compute(x if plan.cut is None else x[plan.cut], plan)
        return windows.from_channels_last(xp, out)

    return run


def _max_gradient(
    pooling: PoolWindows, xp: ArrayNamespace, compute: Compute
) -> Callable[[Value, Value, Value], Value]:
    windows = pooling.windows
    plan_of = lru_cache(PLANS_OF_A_NODE)(pooling.gradient_plan)

    def run(x: Value, out: Value, gradient: Value) -> Value:
        plan = plan_of(x.shape, out.shape, gradient.shape)
        tensors = (windows.to_channels_last(xp, value) for value in (x, out, gradient))
        return windows.from_channels_last(xp, compute(*tensors, plan))

    return run


def _mean_gradient(
    pooling: PoolWindows, xp: ArrayNamespace, compute: Compute
) -> Callable[[Value, Value], Value]:
    windows = pooling.windows
    plan_of = lru_cache(PLANS_OF_A_NODE)(pooling.gradient_plan)

    def run(input_shape: Value, gradient: Value) -> Value:
        windows.check_rank(gradient.shape, "out_backprop")
        sizes = vector_input(input_shape, windows.rank, "orig_input_shape")
        check_sizes(sizes, windows.rank, "orig_input_shape")
        plan = plan_of(sizes, gradient.shape)
        result = compute(windows.to_channels_last(xp, gradient), plan)
        return windows.from_channels_last(xp, result)

    return run


def _with_sizes(
    op: PoolOp, make: Callable[..., Callable[..., Value]], attrs: Mapping[str, Any]
) -> Callable[..., Value]:
    """Return the kernel of a node whose last two inputs are size and strides of the windows."""

    @lru_cache(PLANS_OF_A_NODE)
    def kernel_for(ksize: tuple[int, ...], strides: tuple[int, ...]) -> Callable[..., Value]:
        return make(pool_windows(op.name, ksize, strides, attrs["padding"], attrs["data_format"]))

    def run(*inputs: Value) -> Value:
        *values, ksize, strides = inputs
        sizes = check_vector("ksize", ksize), check_vector("strides", strides)
        return kernel_for(*sizes)(*values)

    return run


def _pool_maker(op: PoolOp, xp: ArrayNamespace, compute: Compute) -> Callable[..., Any]:
    def make(**attrs: Any) -> Callable[..., Value]:
        if op.takes_sizes:
            return _with_sizes(op, lambda pooling: _pool(pooling, xp, compute), attrs)
        if op.is_max and op.rank == 4:
            along = depth_pool(xp, attrs["ksize"], attrs["strides"], attrs["data_format"])
            if along is not None:
                return along
        return _pool(op.windows(attrs), xp, compute)

    return make


def _gradient_maker(op: PoolOp, xp: ArrayNamespace, compute: Compute) -> Callable[..., Any]:
    make_gradient = _max_gradient if op.is_max else _mean_gradient

    def make(**attrs: Any) -> Callable[..., Value]:
        if op.takes_sizes:
            return _with_sizes(op, lambda pooling: make_gradient(pooling, xp, compute), attrs)
        return make_gradient(op.windows(attrs), xp, compute)

    return make


def _table(
    ops: Iterable[PoolOp], backend: str, make: Callable[[PoolOp], Callable[..., Any]]
) -> KernelTable:
    return KernelTable(
        KernelDef(
            ops=(op.name,),
            function=named(make(op), op.name, __name__),
            backend=backend,
            types={"T": op.types},
            static=op.static,
            expensive=True,
            make=True,
        )
        for op in ops
    )


def pool_kernels(
    backend: str, xp: ArrayNamespace, *, maximum: Compute, mean: Compute
) -> KernelTable:
    """Return a backend's kernels of poolings.

    Args:
        backend: name of the backend.
        xp: its array namespace.
        maximum: returns the maximum of each window of an input.
        mean: returns the mean of each window of an input.
    """

    def make(op: PoolOp) -> Callable[..., Any]:
        return _pool_maker(op, xp, maximum if op.is_max else mean)

    return _table(POOLS, backend, make)


def pool_gradient_kernels(
    backend: str, xp: ArrayNamespace, *, of_maximum: Compute, of_mean: Compute
) -> KernelTable:
    """Return a backend's kernels of the gradients of poolings.

    Args:
        backend: name of the backend.
        xp: its array namespace.
        of_maximum: returns the gradient for input, output and output gradient.
        of_mean: returns the gradient for the output gradient.
    """

    def make(op: PoolOp) -> Callable[..., Any]:
        return _gradient_maker(op, xp, of_maximum if op.is_max else of_mean)

    return _table(GRADIENTS, backend, make)
