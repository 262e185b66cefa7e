"""Check the shapes of a convolution, and plan its geometry.

Semantics: tensorflow/core/kernels/conv_ops.cc, conv_ops_3d.cc, depthwise_conv_op.cc,
conv_grad_input_ops.h, conv_grad_filter_ops.cc, conv_grad_ops_3d.cc, depthwise_conv_grad_op.cc.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphmill import errors
from graphmill_plugins.kernels.nn.window import Axis, Windows, check_sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ConvPlan:
    """The channels-last shapes of one convolution, and the positions of its windows.

    Attributes:
        shape: shape of the input.
        kernel: shape of the filter: spatial axes, input channels of a group, output channels. For
            a depthwise convolution: spatial axes, channels, multiplier.
        out: shape of the output.
        axes: the windows along each spatial axis.
    """

    shape: Shape
    kernel: Shape
    out: Shape
    axes: tuple[Axis, ...]

    @property
    def groups(self) -> int:
        """The number of groups that the input channels form."""
        return self.shape[-1] // self.kernel[-2] if self.kernel[-2] else 1


def check_channels(shape: Sequence[int], kernel: Sequence[int], op: str = "") -> None:
    """Check that the filter's depth divides the channels of a channels-last shape.

    Raises:
        InvalidArgumentError: the filter's depth does not divide the input's, or the number of
            groups does not divide the output channels.
    """
    channels, depth, width = shape[-1], kernel[-2], kernel[-1]
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


def _check_depth(channels: int, depth: int) -> None:
    if channels != depth:
        raise errors.InvalidArgumentError(
            f"input and filter must have the same depth: {channels} vs {depth}"
        )


def convolution_plan(windows: Windows, input_shape: Shape, kernel: Shape) -> ConvPlan:
    """Return the plan of a convolution for an input shape in the node's format.

    Raises:
        InvalidArgumentError: the shapes do not fit, or the filter is empty. In two dimensions an
            empty filter is an error only if the output has elements.
    """
    windows.check_rank(input_shape)
    windows.check_rank(kernel, "filter")
    shape = windows.shape_channels_last(input_shape)
    check_channels(shape, kernel, windows.op)
    axes = windows.axes(shape[1:-1], kernel[:-2])
    out = shape[0], *(axis.out for axis in axes), kernel[-1]
    if 0 in kernel and (len(axes) == 3 or 0 not in out):
        raise errors.InvalidArgumentError(
            "filter must not have zero elements (i.e. all dimensions must be non-zero), got shape "
            f"{list(kernel)}"
        )
    return ConvPlan(shape, tuple(kernel), out, axes)


def depthwise_plan(windows: Windows, input_shape: Shape, kernel: Shape) -> ConvPlan:
    """Return the plan of a depthwise convolution for an input shape.

    Raises:
        InvalidArgumentError: the shapes do not fit.
    """
    windows.check_rank(input_shape)
    windows.check_rank(kernel, "filter")
    shape = windows.shape_channels_last(input_shape)
    _check_depth(shape[-1], kernel[2])
    axes = windows.axes(shape[1:-1], kernel[:2])
    out = shape[0], *(axis.out for axis in axes), kernel[2] * kernel[3]
    return ConvPlan(shape, tuple(kernel), out, axes)


def input_gradient_plan(
    windows: Windows, sizes: Shape, kernel: Shape, gradient_shape: Shape
) -> ConvPlan:
    """Return the plan for the gradient of an input of shape `sizes`.

    `sizes` may hold the spatial sizes alone; batch and channels then follow from the others.

    Args:
        windows: the node's windows.
        sizes: the input's shape, or its spatial sizes, in the node's format.
        kernel: shape of the filter.
        gradient_shape: shape of the output's gradient, in the node's format.

    Raises:
        InvalidArgumentError: the shapes do not fit.
    """
    windows.check_rank(gradient_shape, "out_backprop")
    windows.check_rank(kernel, "filter")
    gradient = windows.shape_channels_last(gradient_shape)
    if len(sizes) == windows.rank - 2:
        shape = (gradient[0], *check_sizes(sizes, len(sizes), "input_sizes"), kernel[-2])
    else:
        shape = windows.shape_channels_last(check_sizes(sizes, windows.rank, "input_sizes"))
    check_channels(shape, kernel, windows.op)
    return _gradient_plan(windows, shape, kernel, gradient)


def filter_gradient_plan(
    windows: Windows, x: Shape, sizes: Shape, gradient_shape: Shape
) -> ConvPlan:
    """Return the plan for the gradient of a filter of shape `sizes`.

    Raises:
        InvalidArgumentError: the shapes do not fit.
    """
    windows.check_rank(x)
    windows.check_rank(gradient_shape, "out_backprop")
    shape = windows.shape_channels_last(x)
    kernel = check_sizes(sizes, windows.rank, "filter_sizes")
    check_channels(shape, kernel, windows.op)
    return _gradient_plan(windows, shape, kernel, windows.shape_channels_last(gradient_shape))


def _gradient_plan(windows: Windows, shape: Shape, kernel: Shape, gradient: Shape) -> ConvPlan:
    axes = windows.axes(shape[1:-1], kernel[:-2])
    if not shape[-1]:
        raise errors.InvalidArgumentError(
            f"{windows.op}: an input without channels does not fit a filter with "
            f"{kernel[-2]} input channels"
        )
    out = (shape[0], *(axis.out for axis in axes), kernel[-1])
    _check_gradient(windows, gradient, out)
    return ConvPlan(shape, tuple(kernel), out, axes)


def depthwise_input_plan(
    windows: Windows, sizes: Shape, kernel: Shape, gradient_shape: Shape
) -> ConvPlan:
    """Return the plan for the gradient of a depthwise convolution's input of shape `sizes`.

    Raises:
        InvalidArgumentError: the shapes do not fit.
    """
    windows.check_rank(gradient_shape, "out_backprop")
    windows.check_rank(kernel, "filter")
    shape = windows.shape_channels_last(check_sizes(sizes, windows.rank, "input_sizes"))
    return _depthwise_gradient_plan(windows, shape, kernel, gradient_shape)


def depthwise_filter_plan(
    windows: Windows, x: Shape, sizes: Shape, gradient_shape: Shape
) -> ConvPlan:
    """Return the plan for the gradient of a depthwise convolution's filter of shape `sizes`.

    Raises:
        InvalidArgumentError: the shapes do not fit.
    """
    windows.check_rank(x)
    windows.check_rank(gradient_shape, "out_backprop")
    kernel = check_sizes(sizes, windows.rank, "filter_sizes")
    return _depthwise_gradient_plan(windows, windows.shape_channels_last(x), kernel, gradient_shape)


def _depthwise_gradient_plan(
    windows: Windows, shape: Shape, kernel: Shape, gradient_shape: Shape
) -> ConvPlan:
    _check_depth(shape[-1], kernel[2])
    axes = windows.axes(shape[1:-1], kernel[:2])
    out = (shape[0], *(axis.out for axis in axes), kernel[2] * kernel[3])
    _check_gradient(windows, windows.shape_channels_last(gradient_shape), out)
    return ConvPlan(shape, tuple(kernel), out, axes)


def _check_gradient(windows: Windows, gradient: Shape, expected: Shape) -> None:
    if gradient != expected:
        raise errors.InvalidArgumentError(
            f"{windows.op}: the size of out_backprop doesn't match computed: actual = "
            f"{list(gradient)}, computed = {list(expected)} (channels last)"
        )
