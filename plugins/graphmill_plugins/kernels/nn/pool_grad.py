"""Gradient kernels of poolings on NumPy.

Semantics: tensorflow/core/kernels/maxpooling_op.cc, avgpooling_op.cc, pooling_ops_3d.cc. The
gradient of a maximum goes to the first of equal elements of a window, in row-major order; in three
dimensions to every one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes, errors
from graphmill.runtime.kernel import kernel
from graphmill_plugins.kernels.nn.conv import widen
from graphmill_plugins.kernels.nn.conv_grad import sizes_of
from graphmill_plugins.kernels.nn.pool import check_vector, pool_windows, window_counts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from graphmill.typing import Value
    from graphmill_plugins.kernels.nn.window import Axis, Windows

    Array = NDArray[Any]


def _overlaps(axes: Sequence[Axis], taps: Sequence[int]) -> tuple[Any, Any]:
    """Return index tuples (windows, inputs) of one tap of channels-last tensors."""
    pairs = [axis.overlap(tap) for axis, tap in zip(axes, taps, strict=True)]
    whole = (slice(None),)
    return whole + tuple(pair[0] for pair in pairs), whole + tuple(pair[1] for pair in pairs)


def max_pool_gradient(x: Array, out: Array, gradient: Array, axes: Sequence[Axis]) -> Array:
    """Give each window's gradient to its maxima: the first, or all for volumes; channels last."""
    to_all = len(axes) == 3
    total = np.zeros(x.shape, widen(gradient.dtype))
    pending = np.ones(out.shape, bool)
    for taps in np.ndindex(*(axis.kernel for axis in axes)):
        windows, inputs = _overlaps(axes, taps)
        hit = pending[windows] & (x[inputs] == out[windows])
        total[inputs] += np.where(hit, gradient[windows], 0)
        if not to_all:
            pending[windows] &= ~hit
    return total.astype(gradient.dtype, copy=False)


def avg_pool_gradient(shape: Sequence[int], gradient: Array, axes: Sequence[Axis]) -> Array:
    """Spread each window's gradient evenly over the inputs it covers; channels last."""
    dtype = gradient.dtype
    wide = widen(dtype)
    share = gradient.astype(wide, copy=False) / window_counts(axes, wide)
    total = np.zeros(shape, wide)
    for taps in np.ndindex(*(axis.kernel for axis in axes)):
        windows, inputs = _overlaps(axes, taps)
        total[inputs] += share[windows]
    return total.astype(dtype, copy=False)


def check_shapes(windows: Windows, x: Sequence[int], axes: Sequence[Axis], *outputs: Value) -> None:
    """Raise InvalidArgumentError unless all of `outputs` have the pooling's output shape."""
    expected = (x[0], *(axis.out for axis in axes), x[-1])
    for value in outputs:
        if tuple(value.shape) != expected:
            raise errors.InvalidArgumentError(
                f"{windows.op}: expected orig_output and gradients of shape {list(expected)} "
                f"(channels last), got {list(value.shape)}"
            )


def _run_max(windows: Windows, ksize: Sequence[int]) -> Callable[[Value, Value, Value], Value]:
    def run(x: Value, out: Value, gradient: Value) -> Value:
        windows.check_rank(x, "tensor_in")
        x, out, gradient = (
            windows.to_channels_last(np, np.asarray(value)) for value in (x, out, gradient)
        )
        axes = windows.axes(x.shape[1:-1], ksize)
        check_shapes(windows, x.shape, axes, out, gradient)
        return windows.from_channels_last(np, max_pool_gradient(x, out, gradient, axes))

    return run


def _run_avg(windows: Windows, ksize: Sequence[int]) -> Callable[[Value, Value], Value]:
    def run(input_shape: Value, gradient: Value) -> Value:
        windows.check_rank(gradient, "out_backprop")
        gradient = windows.to_channels_last(np, np.asarray(gradient))
        sizes = sizes_of(input_shape, windows.rank, "orig_input_shape")
        shape = windows.shape_channels_last(sizes)
        axes = windows.axes(shape[1:-1], ksize)
        check_shapes(windows, shape, axes, gradient)
        return windows.from_channels_last(np, avg_pool_gradient(shape, gradient, axes))

    return run


@kernel("MaxPoolGrad", backend="numpy", make=True, types={"T": dtypes.REAL}, expensive=True)
def max_pool_grad(
    ksize: tuple[int, ...],
    strides: tuple[int, ...],
    padding: str,
    explicit_paddings: tuple[int, ...],
    data_format: str,
) -> Callable[[Value, Value, Value], Value]:
    """Return the gradient of MaxPool's input."""
    return _run_max(
        *pool_windows("MaxPoolGrad", ksize, strides, padding, data_format, explicit_paddings)
    )


@kernel(
    "MaxPoolGradV2",
    backend="numpy",
    types={"T": dtypes.REAL},
    static=("ksize", "strides"),
    expensive=True,
)
def max_pool_grad_v2(
    x: Value,
    out: Value,
    gradient: Value,
    ksize: Value,
    strides: Value,
    padding: str,
    data_format: str,
) -> Value:
    """Return the gradient of MaxPoolV2's input."""
    sizes = check_vector("ksize", ksize), check_vector("strides", strides)
    return _run_max(*pool_windows("MaxPoolGradV2", *sizes, padding, data_format))(x, out, gradient)


@kernel("AvgPoolGrad", backend="numpy", make=True, types={"T": dtypes.FLOATING}, expensive=True)
def avg_pool_grad(
    ksize: tuple[int, ...],
    strides: tuple[int, ...],
    padding: str,
    data_format: str,
) -> Callable[[Value, Value], Value]:
    """Return the gradient of AvgPool's input."""
    return _run_avg(*pool_windows("AvgPoolGrad", ksize, strides, padding, data_format))


@kernel("MaxPool3DGrad", backend="numpy", make=True, types={"T": dtypes.FLOATING}, expensive=True)
def max_pool_3d_grad(
    ksize: tuple[int, ...],
    strides: tuple[int, ...],
    padding: str,
    data_format: str,
) -> Callable[[Value, Value, Value], Value]:
    """Return the gradient of MaxPool3D's input."""
    return _run_max(*pool_windows("MaxPool3DGrad", ksize, strides, padding, data_format, rank=5))


@kernel("AvgPool3DGrad", backend="numpy", make=True, types={"T": dtypes.FLOATING}, expensive=True)
def avg_pool_3d_grad(
    ksize: tuple[int, ...],
    strides: tuple[int, ...],
    padding: str,
    data_format: str,
) -> Callable[[Value, Value], Value]:
    """Return the gradient of AvgPool3D's input."""
    return _run_avg(*pool_windows("AvgPool3DGrad", ksize, strides, padding, data_format, rank=5))
