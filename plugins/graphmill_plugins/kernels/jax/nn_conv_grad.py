"""Gradient kernels of convolutions on JAX: the transposes of the forward lowerings.

Semantics as in `nn_conv_grad.py` of the parent package.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import dtypes
from graphmill.runtime.kernel import kernel
from graphmill_plugins._lazy_jax import jax, jnp, lax
from graphmill_plugins.kernels.jax._conv_gradients import (
    gradient_over_slices,
    gradient_product,
    spread_products,
    transposed,
    turned_volumes,
)
from graphmill_plugins.kernels.jax.nn_conv import convolve, grouped_depthwise, shifted_depthwise
from graphmill_plugins.kernels.nn.conv import CONV_TYPES, widen
from graphmill_plugins.kernels.nn.conv_grad import (
    depthwise_plan,
    input_plan,
    kernel_plan,
    sizes_of,
    windows_3d,
)
from graphmill_plugins.kernels.nn.conv_grad_numpy import turned
from graphmill_plugins.kernels.nn.window import Windows, make_windows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.typing import Value

    Run = Callable[[Value, Value, Value], Value]

_FEW_TAPS: Final = 25
_MANY_WINDOWS: Final = 1 << 10
_VOLUME: Final = 3  # axes


def _input_gradient(windows: Windows) -> Run:
    def run(input_sizes: Value, kernel: Value, gradient: Value) -> Value:
        windows.check_rank(gradient, "out_backprop")
        gradient = windows.to_channels_last(jnp, gradient)
        plan = input_plan(windows, input_sizes, kernel, gradient)
        dtype, wide = gradient.dtype, widen(gradient.dtype)
        weights = kernel.astype(wide)

        def forward(x: Value) -> Value:
            return convolve(x, weights, plan.axes, plan.groups)

        if _spreads(plan, gradient):
            out = lax.platform_dependent(
                gradient.astype(wide),
                weights,
                cpu=partial(spread_products, axes=plan.axes),
                default=lambda given, _: transposed(forward, plan.shape, given),
            )
        elif _turns(plan, gradient):
            out = lax.platform_dependent(
                gradient.astype(wide),
                weights,
                cpu=partial(turned_volumes, axes=plan.axes),
                default=lambda given, _: transposed(forward, plan.shape, given),
            )
        else:
            out = transposed(forward, plan.shape, gradient.astype(wide))
        return windows.from_channels_last(jnp, out.astype(dtype))

    return run


def _spreads(plan: Any, gradient: Value) -> bool:
    """Return whether to multiply first and then spread the parts over the input.

    XLA's transposed convolution inserts zeros for strides, and is slow for a single channel.
    """
    axes = plan.axes
    is_thin = plan.shape[-1] == 1 and math.prod(axis.kernel for axis in axes) <= _FEW_TAPS
    is_strided = any(axis.stride > 1 for axis in axes)
    return (
        (is_thin or is_strided)
        and plan.groups == 1
        and all(axis.dilation == 1 for axis in axes)
        and 0 not in plan.shape
        and gradient.size > 0
    )


def _turns(plan: Any, gradient: Value) -> bool:
    """Return whether the gradient is a convolution of volumes by the turned kernel.

    XLA convolves volumes several times slower than the images that their slices make.
    """
    if len(plan.axes) != _VOLUME or plan.groups > 1 or 0 in plan.shape or gradient.size == 0:
        return False
    pads = [pad for axis in plan.axes for pad in (turned(axis).before, turned(axis).after)]
    return min(pads) >= 0 and all(axis.stride == 1 for axis in plan.axes)


def _kernel_gradient(windows: Windows) -> Run:
    def run(x: Value, filter_sizes: Value, gradient: Value) -> Value:
        windows.check_rank(x)
        windows.check_rank(gradient, "out_backprop")
        x = windows.to_channels_last(jnp, x)
        gradient = windows.to_channels_last(jnp, gradient)
        plan = kernel_plan(windows, x, filter_sizes, gradient)
        dtype, wide = gradient.dtype, widen(gradient.dtype)
        # Both are laid out anew; the barrier keeps XLA from computing them again for it.
        image, given = lax.optimization_barrier((x.astype(wide), gradient.astype(wide)))

        def forward(weights: Value) -> Value:
            return convolve(image, weights, plan.axes, plan.groups)

        shape = sizes_of(filter_sizes, windows.rank, "filter_sizes")
        if _is_product(plan, given):
            return lax.platform_dependent(
                image,
                given,
                cpu=partial(gradient_product, axes=plan.axes),
                default=lambda _, given: transposed(forward, shape, given),
            ).astype(dtype)
        if len(plan.axes) == _VOLUME and plan.groups == 1 and 0 not in (given.size, image.size):
            return lax.platform_dependent(
                image,
                given,
                cpu=partial(gradient_over_slices, axes=plan.axes, shape=shape),
                default=lambda _, given: transposed(forward, shape, given),
            ).astype(dtype)
        return transposed(forward, shape, given).astype(dtype)

    return run


def _is_product(plan: Any, gradient: Value) -> bool:
    """Return whether to multiply what the windows see, one tap each, with their gradients.

    XLA's transposed convolution takes up to four times as long where there are many windows.
    """
    is_one_tap = all(axis.kernel == 1 and not axis.before and not axis.after for axis in plan.axes)
    return is_one_tap and plan.groups == 1 and math.prod(gradient.shape[:-1]) >= _MANY_WINDOWS


@kernel(
    "Conv2DBackpropInput",
    backend="jax",
    make=True,
    types={"T": dtypes.FLOATING},  # JAX transposes no functions of integers
    static=("input_sizes",),
    expensive=True,
)
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


@kernel(
    "Conv2DBackpropFilter",
    backend="jax",
    make=True,
    types={"T": CONV_TYPES},
    static=("filter_sizes",),
    expensive=True,
)
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


@kernel(
    "Conv3DBackpropInputV2",
    backend="jax",
    make=True,
    types={"T": dtypes.FLOATING},
    static=("input_sizes",),
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
    backend="jax",
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
    backend="jax",
    make=True,
    types={"T": dtypes.FLOATING},
    static=("filter_sizes",),
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
    backend="jax",
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


def _by_platform(
    make: Callable[[Any], Callable[[Value], Value]], shape: Sequence[int], gradient: Value
) -> Value:
    """Transpose the depthwise lowering that the forward kernel takes on each platform."""
    return jax.lax.platform_dependent(
        gradient,
        cpu=partial(transposed, make(shifted_depthwise), shape),
        default=partial(transposed, make(grouped_depthwise), shape),
    )


def _depthwise_windows(
    op: str,
    strides: tuple[int, ...],
    padding: str,
    explicit_paddings: tuple[int, ...],
    data_format: str,
    dilations: tuple[int, ...],
) -> Windows:
    return make_windows(
        op,
        strides=strides,
        padding=padding,
        explicit_paddings=explicit_paddings,
        data_format=data_format,
        dilations=dilations,
    )


@kernel(
    "DepthwiseConv2dNativeBackpropInput",
    backend="jax",
    make=True,
    types={"T": dtypes.FLOATING},
    static=("input_sizes",),
    expensive=True,
)
def depthwise_backprop_input(
    strides: tuple[int, ...],
    padding: str,
    explicit_paddings: tuple[int, ...],
    data_format: str,
    dilations: tuple[int, ...],
) -> Run:
    """Return the gradient of a depthwise convolution's input."""
    windows = _depthwise_windows(
        "DepthwiseConv2dNativeBackpropInput",
        strides,
        padding,
        explicit_paddings,
        data_format,
        dilations,
    )

    def run(input_sizes: Value, kernel: Value, gradient: Value) -> Value:
        windows.check_rank(gradient, "out_backprop")
        gradient = windows.to_channels_last(jnp, gradient)
        shape = windows.shape_channels_last(sizes_of(input_sizes, 4, "input_sizes"))
        rows, cols = depthwise_plan(windows, shape, kernel.shape, gradient)
        dtype: np.dtype[Any] = gradient.dtype
        wide = widen(dtype)
        weights = jnp.asarray(kernel, wide)
        out = _by_platform(
            lambda lowering: lambda x: lowering(x, weights, rows=rows, cols=cols),
            shape,
            gradient.astype(wide),
        )
        return windows.from_channels_last(jnp, out.astype(dtype))

    return run


@kernel(
    "DepthwiseConv2dNativeBackpropFilter",
    backend="jax",
    make=True,
    types={"T": dtypes.FLOATING},
    static=("filter_sizes",),
    expensive=True,
)
def depthwise_backprop_filter(
    strides: tuple[int, ...],
    padding: str,
    explicit_paddings: tuple[int, ...],
    data_format: str,
    dilations: tuple[int, ...],
) -> Run:
    """Return the gradient of a depthwise convolution's kernel."""
    windows = _depthwise_windows(
        "DepthwiseConv2dNativeBackpropFilter",
        strides,
        padding,
        explicit_paddings,
        data_format,
        dilations,
    )

    def run(x: Value, filter_sizes: Value, gradient: Value) -> Value:
        windows.check_rank(x)
        windows.check_rank(gradient, "out_backprop")
        x = windows.to_channels_last(jnp, x)
        gradient = windows.to_channels_last(jnp, gradient)
        shape = sizes_of(filter_sizes, 4, "filter_sizes")
        rows, cols = depthwise_plan(windows, x.shape, shape, gradient)
        dtype, wide = gradient.dtype, widen(gradient.dtype)
        image = x.astype(wide)
        out = _by_platform(
            lambda lowering: lambda weights: lowering(image, weights, rows=rows, cols=cols),
            shape,
            gradient.astype(wide),
        )
        return out.astype(dtype)

    return run
