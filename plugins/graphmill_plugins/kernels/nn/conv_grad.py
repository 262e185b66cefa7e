"""Gradient kernels of convolutions on NumPy, which are also the transposed convolutions.

Semantics: tensorflow/core/kernels/conv_grad_input_ops.h, conv_grad_filter_ops.cc,
conv_grad_ops_3d.cc, depthwise_conv_grad_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes, errors
from graphmill.runtime.kernel import kernel
from graphmill_plugins.kernels.nn import conv_grad_numpy as nn_conv_grad_numpy
from graphmill_plugins.kernels.nn.conv import CONV_TYPES, check_channels, widen
from graphmill_plugins.kernels.nn.window import Windows, make_windows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.typing import ArrayNamespace, Value

    Run = Callable[[Value, Value, Value], Value]


def sizes_of(value: Value, rank: int, what: str) -> tuple[int, ...]:
    """Return a shape input as Python integers.

    Raises:
        InvalidArgumentError: it is no vector of `rank` sizes.
    """
    array = np.asarray(value)
    if array.ndim != 1 or array.size != rank or (array < 0).any():
        raise errors.InvalidArgumentError(
            f"{what} input must be 1-dim of {rank} sizes, got {array.tolist()}"
        )
    return tuple(array.tolist())


def check_gradient(windows: Windows, gradient: Value, expected: Sequence[int]) -> None:
    """Raise InvalidArgumentError unless a channels-last gradient has the output's shape."""
    if tuple(gradient.shape) != tuple(expected):
        raise errors.InvalidArgumentError(
            f"{windows.op}: the size of out_backprop doesn't match computed: actual = "
            f"{list(gradient.shape)}, computed = {list(expected)} (channels last)"
        )


class Plan:
    """The shapes of one gradient: the input's, the windows and the checks on them."""

    def __init__(
        self, windows: Windows, shape: Sequence[int], kernel: Sequence[int], gradient: Value
    ) -> None:
        self.shape = tuple(shape)
        self.axes = windows.axes(self.shape[1:-1], kernel[:-2])
        if not self.shape[-1]:
            raise errors.InvalidArgumentError(
                f"{windows.op}: an input without channels does not fit a filter of {kernel[-2]}"
            )
        out = (self.shape[0], *(axis.out for axis in self.axes), kernel[-1])
        check_gradient(windows, gradient, out)
        self.groups = self.shape[-1] // kernel[-2] if kernel[-2] else 1


class _Shaped:
    """The little that `check_channels` reads of a tensor."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape = tuple(shape)


def input_plan(windows: Windows, input_sizes: Value, kernel: Value, gradient: Value) -> Plan:
    """Return the plan for the gradient of an input whose shape is given.

    `input_sizes` may name the spatial sizes alone; batch and channels then follow.
    """
    windows.check_rank(kernel, "filter")
    if np.size(input_sizes) == windows.rank - 2:
        spatial = sizes_of(input_sizes, windows.rank - 2, "input_sizes")
        shape = (gradient.shape[0], *spatial, kernel.shape[-2])
    else:
        shape = windows.shape_channels_last(sizes_of(input_sizes, windows.rank, "input_sizes"))
    check_channels(_Shaped(shape), kernel, -2, windows.op)
    return Plan(windows, shape, kernel.shape, gradient)


def kernel_plan(windows: Windows, x: Value, filter_sizes: Value, gradient: Value) -> Plan:
    """Return the plan for the gradient of a kernel whose shape is given; `x` channels last."""
    kernel = sizes_of(filter_sizes, windows.rank, "filter_sizes")
    check_channels(x, _Shaped(kernel), -2, windows.op)
    return Plan(windows, x.shape, kernel, gradient)


def _input_gradient(windows: Windows) -> Run:
    def run(input_sizes: Value, kernel: Value, gradient: Value) -> Value:
        windows.check_rank(gradient, "out_backprop")
        gradient = windows.to_channels_last(np, np.asarray(gradient))
        plan = input_plan(windows, input_sizes, kernel, gradient)
        dtype, wide = gradient.dtype, widen(gradient.dtype)
        out = nn_conv_grad_numpy.input_gradient(
            np.asarray(kernel, wide), gradient.astype(wide, copy=False), plan.axes, plan.shape[-1]
        )
        return windows.from_channels_last(np, out.astype(dtype, copy=False))

    return run


def _kernel_gradient(windows: Windows) -> Run:
    def run(x: Value, filter_sizes: Value, gradient: Value) -> Value:
        windows.check_rank(x)
        windows.check_rank(gradient, "out_backprop")
        x = windows.to_channels_last(np, np.asarray(x))
        gradient = windows.to_channels_last(np, np.asarray(gradient))
        plan = kernel_plan(windows, x, filter_sizes, gradient)
        dtype, wide = gradient.dtype, widen(gradient.dtype)
        out = nn_conv_grad_numpy.kernel_gradient(
            x.astype(wide, copy=False),
            gradient.astype(wide, copy=False),
            plan.axes,
            plan.groups,
        )
        return out.astype(dtype, copy=False)

    return run


@kernel("Conv2DBackpropInput", backend="numpy", make=True, types={"T": CONV_TYPES}, expensive=True)
def conv2d_backprop_input(
    strides: tuple[int, ...],
    padding: str,
    explicit_paddings: tuple[int, ...],
    data_format: str,
    dilations: tuple[int, ...],
) -> Run:
    """Return the gradient of a Conv2D's input, or the transposed convolution of images."""
    return _input_gradient(
        make_windows(
            "Conv2DBackpropInput",
            strides=strides,
            padding=padding,
            explicit_paddings=explicit_paddings,
            data_format=data_format,
            dilations=dilations,
        )
    )


@kernel("Conv2DBackpropFilter", backend="numpy", make=True, types={"T": CONV_TYPES}, expensive=True)
def conv2d_backprop_filter(
    strides: tuple[int, ...],
    padding: str,
    explicit_paddings: tuple[int, ...],
    data_format: str,
    dilations: tuple[int, ...],
) -> Run:
    """Return the gradient of a Conv2D's kernel."""
    return _kernel_gradient(
        make_windows(
            "Conv2DBackpropFilter",
            strides=strides,
            padding=padding,
            explicit_paddings=explicit_paddings,
            data_format=data_format,
            dilations=dilations,
        )
    )


def windows_3d(
    op: str, strides: Sequence[int], padding: str, data_format: str, dilations: Sequence[int]
) -> Windows:
    """Return the windows of a gradient of Conv3D."""
    return make_windows(
        op,
        strides=strides,
        padding=padding,
        data_format=data_format,
        dilations=dilations,
        rank=5,
    )


@kernel(
    "Conv3DBackpropInputV2",
    backend="numpy",
    make=True,
    types={"T": dtypes.FLOATING},
    expensive=True,
)
def conv3d_backprop_input(
    strides: tuple[int, ...],
    padding: str,
    data_format: str,
    dilations: tuple[int, ...],
) -> Run:
    """Return the gradient of a Conv3D's input, or the transposed convolution of volumes."""
    return _input_gradient(
        windows_3d("Conv3DBackpropInputV2", strides, padding, data_format, dilations)
    )


@kernel(
    "Conv3DBackpropInput",
    backend="numpy",
    make=True,
    types={"T": dtypes.FLOATING},
    expensive=True,
)
def conv3d_backprop_input_of(
    strides: tuple[int, ...], padding: str, dilations: tuple[int, ...]
) -> Run:
    """Return the gradient of a Conv3D's input, which is given to tell its shape."""
    run = _input_gradient(windows_3d("Conv3DBackpropInput", strides, padding, "NDHWC", dilations))
    return lambda x, filters, gradient: run(np.array(x.shape), filters, gradient)


@kernel(
    "Conv3DBackpropFilterV2",
    backend="numpy",
    make=True,
    types={"T": dtypes.FLOATING},
    expensive=True,
)
def conv3d_backprop_filter(
    strides: tuple[int, ...],
    padding: str,
    data_format: str,
    dilations: tuple[int, ...],
) -> Run:
    """Return the gradient of a Conv3D's kernel."""
    return _kernel_gradient(
        windows_3d("Conv3DBackpropFilterV2", strides, padding, data_format, dilations)
    )


@kernel(
    "Conv3DBackpropFilter",
    backend="numpy",
    make=True,
    types={"T": dtypes.FLOATING},
    expensive=True,
)
def conv3d_backprop_filter_of(
    strides: tuple[int, ...], padding: str, dilations: tuple[int, ...]
) -> Run:
    """Return the gradient of a Conv3D's kernel, which is given to tell its shape."""
    run = _kernel_gradient(windows_3d("Conv3DBackpropFilter", strides, padding, "NDHWC", dilations))
    return lambda x, filters, gradient: run(x, np.array(filters.shape), gradient)


def depthwise_plan(
    windows: Windows, shape: Sequence[int], kernel: Sequence[int], gradient: Value
) -> Any:
    """Return the (rows, columns) windows of a depthwise gradient; shapes are channels last.

    Raises:
        InvalidArgumentError: the kernel does not have the input's depth, or the gradient is of
            another shape than the output.
    """
    if shape[-1] != kernel[2]:
        raise errors.InvalidArgumentError(
            f"input and filter must have the same depth: {shape[-1]} vs {kernel[2]}"
        )
    axes = windows.axes(shape[1:-1], kernel[:2])
    out = (shape[0], *(axis.out for axis in axes), kernel[2] * kernel[3])
    check_gradient(windows, gradient, out)
    return axes


@kernel(
    "DepthwiseConv2dNativeBackpropInput",
    backend="numpy",
    make=True,
    types={"T": dtypes.FLOATING},
    expensive=True,
)
def depthwise_backprop_input(
    xp: ArrayNamespace,
    strides: tuple[int, ...],
    padding: str,
    explicit_paddings: tuple[int, ...],
    data_format: str,
    dilations: tuple[int, ...],
) -> Run:
    """Return the gradient of a depthwise convolution's input."""
    windows = make_windows(
        "DepthwiseConv2dNativeBackpropInput",
        strides=strides,
        padding=padding,
        explicit_paddings=explicit_paddings,
        data_format=data_format,
        dilations=dilations,
    )

    def run(input_sizes: Value, kernel: Value, gradient: Value) -> Value:
        windows.check_rank(gradient, "out_backprop")
        gradient = windows.to_channels_last(xp, xp.asarray(gradient))
        shape = windows.shape_channels_last(sizes_of(input_sizes, 4, "input_sizes"))
        rows, cols = depthwise_plan(windows, shape, kernel.shape, gradient)
        dtype, wide = gradient.dtype, widen(gradient.dtype)
        out = nn_conv_grad_numpy.depthwise_input_gradient(
            xp.asarray(kernel, wide), gradient.astype(wide, copy=False), rows, cols
        )
        return windows.from_channels_last(xp, out.astype(dtype, copy=False))

    return run


@kernel(
    "DepthwiseConv2dNativeBackpropFilter",
    backend="numpy",
    make=True,
    types={"T": dtypes.FLOATING},
    expensive=True,
)
def depthwise_backprop_filter(
    xp: ArrayNamespace,
    strides: tuple[int, ...],
    padding: str,
    explicit_paddings: tuple[int, ...],
    data_format: str,
    dilations: tuple[int, ...],
) -> Run:
    """Return the gradient of a depthwise convolution's kernel."""
    windows = make_windows(
        "DepthwiseConv2dNativeBackpropFilter",
        strides=strides,
        padding=padding,
        explicit_paddings=explicit_paddings,
        data_format=data_format,
        dilations=dilations,
    )

    def run(x: Value, filter_sizes: Value, gradient: Value) -> Value:
        windows.check_rank(x)
        windows.check_rank(gradient, "out_backprop")
        x = windows.to_channels_last(xp, xp.asarray(x))
        gradient = windows.to_channels_last(xp, xp.asarray(gradient))
        kernel = sizes_of(filter_sizes, 4, "filter_sizes")
        rows, cols = depthwise_plan(windows, x.shape, kernel, gradient)
        dtype, wide = gradient.dtype, widen(gradient.dtype)
        out = nn_conv_grad_numpy.depthwise_kernel_gradient(
            x.astype(wide, copy=False), gradient.astype(wide, copy=False), rows, cols, kernel[3]
        )
        return out.astype(dtype, copy=False)

    return run
