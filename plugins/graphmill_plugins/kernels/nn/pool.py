"""Pooling kernels on NumPy: MaxPool, AvgPool and their three-dimensional forms.

Semantics: tensorflow/core/kernels/maxpooling_op.cc, avgpooling_op.cc, pooling_ops_3d.cc.
A window is reduced one axis after the other by shifted maxima or sums over whole images: a 3x3
window takes six passes and needs no padded copy.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes, errors
from graphmill.runtime.kernel import kernel
from graphmill_plugins.kernels.nn.conv import widen
from graphmill_plugins.kernels.nn.window import (
    Axis,
    Windows,
    is_channels_first,
    make_windows,
    spatial,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from graphmill.typing import ArrayNamespace, Value

    Array = NDArray[Any]


def pool_windows(
    op: str,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    data_format: str,
    explicit_paddings: Sequence[int] = (),
    rank: int = 4,
) -> tuple[Windows, tuple[int, ...]]:
    """Return the windows of a pooling node and the size of a window along each spatial axis.

    Raises:
        InvalidArgumentError: `ksize` has the wrong length or a value below one.
        UnimplementedError: pooling over the batch or the channels.
    """
    if len(ksize) != rank:
        raise errors.InvalidArgumentError(
            f"Sliding window ksize field must specify {rank} dimensions, got {list(ksize)}"
        )
    if min(ksize) < 1:
        raise errors.InvalidArgumentError(
            f"Sliding window ksize for dimension {list(ksize).index(min(ksize))} was "
            f"{min(ksize)}; {op} needs sizes of at least 1"
        )
    first = is_channels_first(op, data_format)
    if ksize[0] != 1 or ksize[1 if first else -1] != 1:
        raise errors.UnimplementedError(
            f"{op} over the batch, or over channels and space, is not supported; it has "
            f"ksize={list(ksize)}"
        )
    windows = make_windows(
        op,
        strides=strides,
        padding=padding,
        data_format=data_format,
        explicit_paddings=explicit_paddings,
        rank=rank,
    )
    return replace(windows, is_pool=True), spatial(ksize, first)


def lowest(dtype: np.dtype[Any]) -> Any:
    """Return the value below all others of a real dtype: what padding counts in a maximum."""
    kind = dtypes.as_dtype(dtype)
    return dtype.type(-np.inf) if kind.is_floating else kind.min


def shifted_reduce(x: Array, position: int, axis: Axis, ufunc: np.ufunc, empty: Any) -> Array:
    """Reduce the windows of `axis`, which is array axis `position`, by a binary ufunc.

    Args:
        empty: what a window that lies in padding alone is given.
    """
    if axis.kernel == 1 and axis.stride == 1 and not (axis.before or axis.after):
        return x
    before = (slice(None),) * position
    overlaps = [axis.overlap(tap) for tap in range(axis.kernel)]
    whole = [tap for tap, (windows, _) in enumerate(overlaps) if windows == slice(0, axis.out)]
    if whole:
        out = x[(*before, overlaps.pop(whole[0])[1])].copy()
    else:
        out = np.full((*x.shape[:position], axis.out, *x.shape[position + 1 :]), empty, x.dtype)
    for windows, inputs in overlaps:
        target = out[(*before, windows)]
        ufunc(target, x[(*before, inputs)], out=target)
    return out


def max_pool(x: Array, axes: Sequence[Axis]) -> Array:
    """Return the maximum of each window of channels-last `x`; NaN wins as in NumPy."""
    empty = lowest(x.dtype)
    for position, axis in enumerate(axes, 1):
        x = shifted_reduce(x, position, axis, np.maximum, empty)
    return x


def avg_pool(x: Array, axes: Sequence[Axis]) -> Array:
    """Return the mean of each window of channels-last `x`; padding does not count."""
    dtype = x.dtype
    x = x.astype(widen(dtype), copy=False)
    for position, axis in enumerate(axes, 1):
        x = shifted_reduce(x, position, axis, np.add, 0)
    mean: Array = x / window_counts(axes, x.dtype)
    return mean.astype(dtype, copy=False)


def window_counts(axes: Sequence[Axis], dtype: np.dtype[Any]) -> Any:
    """Return how many inputs each window covers: a number, or (spatial axes …, 1)."""
    counts = [axis.counts() for axis in axes]
    if all(min(row, default=1) == max(row, default=1) for row in counts):
        return dtype.type(np.prod([row[0] if row else 1 for row in counts]))
    total = np.ones((), dtype)
    for row in counts:
        total = total[..., None] * np.array(row, dtype)
    return total[..., None]


def _run(windows: Windows, ksize: Sequence[int], reduce: Callable[..., Array], x: Value) -> Value:
    windows.check_rank(x, "tensor_in")
    x = windows.centred(windows.to_channels_last(np, np.asarray(x)), ksize)
    out = reduce(x, windows.axes(x.shape[1:-1], ksize))
    return windows.from_channels_last(np, out)


def depth_pool(
    xp: ArrayNamespace, ksize: Sequence[int], strides: Sequence[int], data_format: str
) -> Callable[[Value], Value] | None:
    """Return the maximum over groups of channels if the windows lie along the channels.

    Raises:
        UnimplementedError: the windows lie along space too, or overlap, or leave channels over.
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


@kernel("MaxPool", backend="numpy", make=True, types={"T": dtypes.REAL}, expensive=True)
def max_pool_2d(
    xp: ArrayNamespace,
    ksize: tuple[int, ...],
    strides: tuple[int, ...],
    padding: str,
    explicit_paddings: tuple[int, ...],
    data_format: str,
) -> Callable[[Value], Value]:
    """Take the maximum of each window."""
    along_depth = depth_pool(xp, ksize, strides, data_format)
    if along_depth is not None:
        return along_depth
    windows, size = pool_windows("MaxPool", ksize, strides, padding, data_format, explicit_paddings)
    return partial(_run, windows, size, max_pool)


@kernel(
    "MaxPoolV2",
    backend="numpy",
    types={"T": dtypes.REAL},
    static=("ksize", "strides"),
    expensive=True,
)
def max_pool_2d_v2(x: Value, ksize: Value, strides: Value, padding: str, data_format: str) -> Value:
    """Take the maximum of each window; sizes and strides are inputs."""
    windows, size = pool_windows(
        "MaxPoolV2",
        check_vector("ksize", ksize),
        check_vector("strides", strides),
        padding,
        data_format,
    )
    return _run(windows, size, max_pool, x)


def check_vector(name: str, value: Value) -> list[int]:
    """Return a window input (ksize, strides) as a list of four numbers.

    Raises:
        InvalidArgumentError: it is no vector of four elements.
    """
    array = np.asarray(value)
    if array.shape != (4,):
        raise errors.InvalidArgumentError(
            f"Sliding window {name} must be a vector of 4 elements, got shape {list(array.shape)}"
        )
    return [int(size) for size in array]


@kernel("AvgPool", backend="numpy", make=True, types={"T": dtypes.FLOATING}, expensive=True)
def avg_pool_2d(
    ksize: tuple[int, ...],
    strides: tuple[int, ...],
    padding: str,
    data_format: str,
) -> Callable[[Value], Value]:
    """Take the mean of each window over the inputs it covers."""
    windows, size = pool_windows("AvgPool", ksize, strides, padding, data_format)
    return partial(_run, windows, size, avg_pool)


@kernel("MaxPool3D", backend="numpy", make=True, types={"T": dtypes.FLOATING}, expensive=True)
def max_pool_3d(
    ksize: tuple[int, ...],
    strides: tuple[int, ...],
    padding: str,
    data_format: str,
) -> Callable[[Value], Value]:
    """Take the maximum of each window of volumes."""
    windows, size = pool_windows("MaxPool3D", ksize, strides, padding, data_format, rank=5)
    return partial(_run, windows, size, max_pool)


@kernel("AvgPool3D", backend="numpy", make=True, types={"T": dtypes.FLOATING}, expensive=True)
def avg_pool_3d(
    ksize: tuple[int, ...],
    strides: tuple[int, ...],
    padding: str,
    data_format: str,
) -> Callable[[Value], Value]:
    """Take the mean of each window of volumes over the inputs it covers."""
    windows, size = pool_windows("AvgPool3D", ksize, strides, padding, data_format, rank=5)
    return partial(_run, windows, size, avg_pool)
