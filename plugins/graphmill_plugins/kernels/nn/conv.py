"""Convolution kernels on NumPy: Conv2D, Conv3D, Conv, DepthwiseConv2dNative.

Semantics: tensorflow/core/kernels/conv_ops.cc, conv_ops_3d.cc, depthwise_conv_op.cc.
The transposed ones and the gradients stand in `nn_conv_grad.py`; JAX's in `jax/nn_conv.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes, errors
from graphmill.runtime.kernel import kernel
from graphmill_plugins.kernels.nn import conv_numpy as nn_conv_numpy
from graphmill_plugins.kernels.nn.window import Axis, Windows, make_windows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.typing import ArrayNamespace, Value

CONV_TYPES = (*dtypes.FLOATING, dtypes.int32)


def widen(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which sums of `dtype` are kept: float32 for 8- and 16-bit floats."""
    return dtype if dtype.itemsize > 2 else np.dtype(np.float32)


def check_channels(x: Value, kernel: Value, depth_axis: int, op: str = "") -> None:
    """Check that the channels of channels-last `x` divide into groups of the kernel's depth.

    Raises:
        InvalidArgumentError: the depths do not fit, or the outputs do not divide into groups.
    """
    channels, depth, width = x.shape[-1], kernel.shape[depth_axis], kernel.shape[-1]
    if depth == 0:
        raise errors.InvalidArgumentError(f"filter depth of {op or 'Conv'} must not be 0")
    if channels % depth or (op == "Conv" and not channels):
        raise errors.InvalidArgumentError(
            f"input depth must be evenly divisible by filter depth: {channels} vs {depth}"
        )
    groups = channels // depth
    if groups > 1 and width % groups:
        raise errors.InvalidArgumentError(
            f"output depth must be evenly divisible by number of groups: {width} vs {groups}"
        )


def check_kernel_rank(windows: Windows, kernel: Value) -> None:
    """Raise InvalidArgumentError unless `kernel` has the rank of the input."""
    windows.check_rank(kernel, "filter")


def convolved_axes(windows: Windows, x: Value, kernel: Value) -> tuple[Axis, ...]:
    """Return the windows along each axis of channels-last images.

    Raises:
        InvalidArgumentError: there are outputs, and no elements of the kernel to make them of;
            for volumes also without outputs.
    """
    axes = windows.axes(x.shape[1:-1], kernel.shape[:-2])
    out = len(x), *(axis.out for axis in axes), kernel.shape[-1]
    if 0 in kernel.shape and (len(axes) == 3 or 0 not in out):
        raise errors.InvalidArgumentError(
            "filter must not have zero elements (i.e. all dimensions must be non-zero), got shape "
            f"{list(kernel.shape)}"
        )
    return axes


def run_convolution(windows: Windows, x: Value, kernel: Value) -> Value:
    """Convolve NumPy arrays `x` (the node's format) and `kernel` (spatial …, in, out)."""
    windows.check_rank(x)
    check_kernel_rank(windows, kernel)
    x = windows.to_channels_last(np, np.asarray(x))
    check_channels(x, kernel, -2, windows.op)
    axes = convolved_axes(windows, x, kernel)
    dtype, wide = x.dtype, widen(x.dtype)
    convolve: Callable[..., Any] = nn_conv_numpy.conv2d if len(axes) == 2 else nn_conv_numpy.conv3d
    out = convolve(x.astype(wide, copy=False), np.asarray(kernel, wide, order="C"), *axes)
    return windows.from_channels_last(np, out.astype(dtype, copy=False))


@kernel("Conv2D", backend="numpy", make=True, types={"T": CONV_TYPES}, expensive=True)
def conv2d(
    strides: tuple[int, ...],
    padding: str,
    explicit_paddings: tuple[int, ...],
    data_format: str,
    dilations: tuple[int, ...],
) -> Callable[[Value, Value], Value]:
    """Convolve images (N, H, W, C) with (KH, KW, C / groups, O); NCHW likewise."""
    windows = make_windows(
        "Conv2D",
        strides=strides,
        padding=padding,
        explicit_paddings=explicit_paddings,
        data_format=data_format,
        dilations=dilations,
    )
    return lambda x, kernel: run_convolution(windows, x, kernel)


@kernel("Conv3D", backend="numpy", make=True, types={"T": dtypes.FLOATING}, expensive=True)
def conv3d(
    strides: tuple[int, ...],
    padding: str,
    data_format: str,
    dilations: tuple[int, ...],
) -> Callable[[Value, Value], Value]:
    """Convolve volumes (N, D, H, W, C) with (KD, KH, KW, C / groups, O); NCDHW likewise."""
    windows = make_windows(
        "Conv3D",
        strides=strides,
        padding=padding,
        data_format=data_format,
        dilations=dilations,
        rank=5,
    )
    return lambda x, kernel: run_convolution(windows, x, kernel)


def general_windows(
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int],
    data_format: str,
    dilations: Sequence[int],
    batch_dims: int,
    groups: int,
) -> Windows:
    """Return the windows of the op `Conv`, whose rank (2-D or 3-D) is that of its strides.

    Raises:
        UnimplementedError: for more than one batch dimension or group.
    """
    if groups != 1:
        raise errors.UnimplementedError(
            f"Conv with groups={groups}: grouped convolutions are not supported, but by a filter "
            "of fewer channels than the input has"
        )
    if batch_dims != 1:
        raise errors.UnimplementedError(
            f"Conv with batch_dims={batch_dims}: only one batch dimension is implemented"
        )
    return make_windows(
        "Conv",
        strides=strides,
        padding=padding,
        explicit_paddings=explicit_paddings,
        data_format=data_format,
        dilations=dilations,
        rank=len(strides),
    )


@kernel("Conv", backend="numpy", make=True, types={"T": CONV_TYPES}, expensive=True)
def conv(
    strides: tuple[int, ...],
    padding: str,
    explicit_paddings: tuple[int, ...],
    data_format: str,
    dilations: tuple[int, ...],
    batch_dims: int,
    groups: int,
) -> Callable[[Value, Value], Value]:
    """Convolve in two or three dimensions, as many as `strides` names."""
    windows = general_windows(
        strides, padding, explicit_paddings, data_format, dilations, batch_dims, groups
    )
    return lambda x, kernel: run_convolution(windows, x, kernel)


def depthwise_windows(
    op: str,
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int],
    data_format: str,
    dilations: Sequence[int],
) -> Windows:
    """Return the windows of a depthwise convolution."""
    return make_windows(
        op,
        strides=strides,
        padding=padding,
        explicit_paddings=explicit_paddings,
        data_format=data_format,
        dilations=dilations,
    )


def check_depthwise(windows: Windows, x: Value, kernel: Value) -> None:
    """Raise InvalidArgumentError unless `kernel` has a filter for each channel of `x`."""
    windows.check_rank(x)
    check_kernel_rank(windows, kernel)
    channels = x.shape[1 if windows.channels_first else -1]
    if channels != kernel.shape[2]:
        raise errors.InvalidArgumentError(
            f"input and filter must have the same depth: {channels} vs {kernel.shape[2]}"
        )


@kernel(
    "DepthwiseConv2dNative",
    backend="numpy",
    make=True,
    types={"T": dtypes.FLOATING},
    expensive=True,
)
def depthwise_conv2d(
    xp: ArrayNamespace,
    strides: tuple[int, ...],
    padding: str,
    explicit_paddings: tuple[int, ...],
    data_format: str,
    dilations: tuple[int, ...],
) -> Callable[[Value, Value], Value]:
    """Convolve each channel with its own (KH, KW, C, M) filters → (N, OH, OW, C * M)."""
    windows = depthwise_windows(
        "DepthwiseConv2dNative", strides, padding, explicit_paddings, data_format, dilations
    )

    def run(x: Value, kernel: Value) -> Value:
        check_depthwise(windows, x, kernel)
        x = windows.to_channels_last(xp, xp.asarray(x))
        rows, cols = windows.axes(x.shape[1:3], kernel.shape[:2])
        dtype, wide = x.dtype, widen(x.dtype)
        if not kernel.size:
            shape = (len(x), rows.out, cols.out, x.shape[3] * kernel.shape[3])
            return windows.from_channels_last(xp, np.zeros(shape, dtype))
        weights = np.asarray(kernel, wide, order="C")
        out = nn_conv_numpy.depthwise(x.astype(wide, copy=False), weights, rows, cols)
        return windows.from_channels_last(xp, out.astype(dtype, copy=False))

    return run
