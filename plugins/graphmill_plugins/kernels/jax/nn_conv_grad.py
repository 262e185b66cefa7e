"""Gradient kernels of convolutions on JAX: the transposes of the forward algorithms.

Their ops, checks and shapes are in `nn.conv.ops` and `nn.conv.plan`.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Final

from graphmill import dtypes
from graphmill_plugins._lazy_jax import jnp, lax
from graphmill_plugins.kernels._support import widen
from graphmill_plugins.kernels.jax._conv_gradients import (
    convolved_blocks,
    convolved_phases,
    flipped_convolution,
    flipped_depthwise,
    flipped_images,
    gradient_by_image,
    gradient_by_rows,
    gradient_by_shifts,
    gradient_over_slices,
    gradient_product,
    is_for_shifts,
    spread_products,
    summed_depthwise_gradient,
    taps_axis,
    transposed,
)
from graphmill_plugins.kernels.jax.nn_conv import convolve, grouped_depthwise, shifted_depthwise
from graphmill_plugins.kernels.nn.conv.numpy_grad import transposed_axis
from graphmill_plugins.kernels.nn.conv.ops import conv_gradient_kernels

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Value
    from graphmill_plugins.kernels.nn.conv.plan import ConvPlan

_MAX_SPREAD_TAPS: Final = 25
_MAX_ADDED_TAPS: Final = 9
_MAX_STRIDED_WEIGHTS: Final = 512  # for each tap
_MAX_DENSE_WEIGHTS: Final = 64
_MIN_SUMMED: Final = 1 << 10  # elements; XLA emits small loops as functions, without barriers
_MIN_WINDOWS: Final = 1 << 10
_IMAGE: Final = 2  # axes
_VOLUME: Final = 3
# Where convolutions replace products that are spread:
_MIN_PRODUCTS: Final = 1 << 20  # elements
_MAX_WIDTH: Final = 64  # channels of the gradient
_MIN_DEPTH: Final = 12  # channels of the image, for several convolutions
_MAX_PHASES: Final = 4


def _of_input(kernel: Value, gradient: Value, plan: ConvPlan) -> Value:
    dtype, wide = gradient.dtype, widen(gradient.dtype)
    weights, out_gradient = kernel.astype(wide), gradient.astype(wide)

    def forward(x: Value) -> Value:
        return convolve(x, weights, plan.axes, plan.groups)

    on_cpu = _input_gradient_on_cpu(plan)
    if on_cpu is None:
        return transposed(forward, plan.shape, out_gradient).astype(dtype)
    out = lax.platform_dependent(
        out_gradient,
        weights,
        cpu=partial(on_cpu, axes=plan.axes),
        default=lambda out_gradient, _: transposed(forward, plan.shape, out_gradient),
    )
    return out.astype(dtype)


def _input_gradient_on_cpu(plan: ConvPlan) -> Callable[..., Value] | None:
    if _spreads(plan):
        return _spread_form(plan)
    return _flipped_form(plan)


def _spread_form(plan: ConvPlan) -> Callable[..., Value]:
    """Return how to compute strided gradients: by products, or by convolutions if these are large.

    The products of all taps, `spread_products`, leave the cache before they are added. With many
    channels, that takes little of the time.
    """
    depth, width = plan.kernel[-2:]
    products = math.prod(plan.out[:-1]) * math.prod(plan.kernel[:-1])
    has_larger_windows = all(axis.kernel > axis.stride for axis in plan.axes)
    is_image = len(plan.axes) == _IMAGE and any(axis.stride > 1 for axis in plan.axes)
    if not (is_image and has_larger_windows) or width > _MAX_WIDTH or products < _MIN_PRODUCTS:
        return spread_products
    if all(axis.kernel % axis.stride == 0 for axis in plan.axes):
        return convolved_blocks
    phases = math.prod(axis.stride for axis in plan.axes)
    has_few = depth < _MIN_DEPTH or phases > _MAX_PHASES
    return spread_products if has_few else convolved_phases


def _spreads(plan: ConvPlan) -> bool:
    """Return whether multiplying first and then adding the products at their inputs is faster.

    XLA's transposed convolution inserts zeros for strides, and is slow for a single channel.
    """
    axes = plan.axes
    is_thin = plan.shape[-1] == 1 and math.prod(axis.kernel for axis in axes) <= _MAX_SPREAD_TAPS
    is_strided = any(axis.stride > 1 for axis in axes)
    return (
        (is_thin or is_strided)
        and plan.groups == 1
        and all(axis.dilation == 1 for axis in axes)
        and 0 not in plan.shape
        and 0 not in plan.out
    )


def _flipped_form(plan: ConvPlan) -> Callable[..., Value] | None:
    """Return how to convolve with the flipped kernel, if that is the gradient.

    XLA convolves volumes several times slower than images with their slices as channels.
    """
    if plan.groups > 1 or not _can_be_flipped(plan):
        return None
    return {_IMAGE: flipped_images, _VOLUME: flipped_convolution}.get(len(plan.axes))


def _can_be_flipped(plan: ConvPlan) -> bool:
    """Return whether the gradient is a convolution by the flipped kernel, without cropping."""
    return 0 not in (*plan.shape, *plan.out) and all(
        axis.stride == 1 and min(flipped.before, flipped.after) >= 0
        for axis, flipped in ((axis, transposed_axis(axis)) for axis in plan.axes)
    )


def _of_filter(x: Value, gradient: Value, plan: ConvPlan) -> Value:
    dtype, wide = gradient.dtype, widen(gradient.dtype)
    # The layout of both operands changes; the barrier stops XLA from recomputing them for that.
    image, out_gradient = lax.optimization_barrier((x.astype(wide), gradient.astype(wide)))

    def forward(weights: Value) -> Value:
        return convolve(image, weights, plan.axes, plan.groups)

    on_cpu = _filter_gradient_on_cpu(plan)
    if on_cpu is None:
        return transposed(forward, plan.kernel, out_gradient).astype(dtype)
    return lax.platform_dependent(
        image,
        out_gradient,
        cpu=partial(on_cpu, axes=plan.axes),
        default=lambda _, out_gradient: transposed(forward, plan.kernel, out_gradient),
    ).astype(dtype)


def _filter_gradient_on_cpu(plan: ConvPlan) -> Callable[..., Value] | None:
    if _is_product(plan):
        return gradient_product
    if plan.groups > 1 or 0 in (*plan.out, *plan.shape):
        return None
    if any(taps_axis(axis).size <= 0 for axis in plan.axes):
        return None  # all windows are in the padding
    if len(plan.axes) == _VOLUME:
        return partial(gradient_over_slices, shape=plan.kernel)
    if is_for_shifts(plan.shape[-1], plan.out, plan.axes):
        return gradient_by_shifts
    return gradient_by_rows if _is_narrow(plan) else gradient_by_image


def _is_narrow(plan: ConvPlan) -> bool:
    """Return whether there are few weights for each tap, so that products by rows are faster.

    XLA's transposed convolution is slow then, above all where the windows are strided.
    """
    is_strided = any(axis.stride > 1 for axis in plan.axes)
    most = _MAX_STRIDED_WEIGHTS if is_strided else _MAX_DENSE_WEIGHTS
    is_small = math.prod(axis.kernel for axis in plan.axes) <= _MAX_SPREAD_TAPS
    return is_small and math.prod(plan.kernel[-2:]) <= most


def _is_product(plan: ConvPlan) -> bool:
    """Return whether windows have one tap, so that the gradient is a matrix product.

    XLA's transposed convolution takes up to four times as long where there are many windows.
    """
    is_one_tap = all(axis.kernel == 1 and not axis.before and not axis.after for axis in plan.axes)
    return is_one_tap and plan.groups == 1 and math.prod(plan.out[:-1]) >= _MIN_WINDOWS


def _of_depthwise_input(kernel: Value, gradient: Value, plan: ConvPlan) -> Value:
    dtype, wide = gradient.dtype, widen(gradient.dtype)
    rows, cols = plan.axes
    weights = jnp.asarray(kernel, wide)
    default = partial(_transposed_input, algorithm=grouped_depthwise, plan=plan)
    on_cpu = partial(_transposed_input, algorithm=shifted_depthwise, plan=plan)
    if _is_flipped_depthwise(plan):
        on_cpu = partial(flipped_depthwise, rows=rows, cols=cols)
    out = lax.platform_dependent(gradient.astype(wide), weights, cpu=on_cpu, default=default)
    return out.astype(dtype)


def _is_flipped_depthwise(plan: ConvPlan) -> bool:
    """Return whether to compute the gradient as a depthwise convolution by the flipped kernel.

    For few taps, XLA adds the padded images of the transpose as fast.
    """
    has_many_taps = math.prod(axis.kernel for axis in plan.axes) > _MAX_ADDED_TAPS
    return has_many_taps and _can_be_flipped(plan)


def _transposed_input(
    gradient: Value, weights: Value, algorithm: Callable[..., Value], plan: ConvPlan
) -> Value:
    """Transpose a depthwise algorithm with respect to its image."""
    rows, cols = plan.axes
    return transposed(lambda x: algorithm(x, weights, rows=rows, cols=cols), plan.shape, gradient)


def _of_depthwise_filter(x: Value, gradient: Value, plan: ConvPlan) -> Value:
    dtype, wide = gradient.dtype, widen(gradient.dtype)
    rows, cols = plan.axes
    default = partial(_transposed_filter, algorithm=grouped_depthwise, plan=plan)
    on_cpu = partial(_transposed_filter, algorithm=shifted_depthwise, plan=plan)
    if math.prod(plan.out) >= _MIN_SUMMED:
        on_cpu = partial(summed_depthwise_gradient, rows=rows, cols=cols)
    out = lax.platform_dependent(x.astype(wide), gradient.astype(wide), cpu=on_cpu, default=default)
    return out.astype(dtype)


def _transposed_filter(
    image: Value, gradient: Value, algorithm: Callable[..., Value], plan: ConvPlan
) -> Value:
    """Transpose a depthwise algorithm with respect to its weights."""
    rows, cols = plan.axes
    return transposed(
        lambda weights: algorithm(image, weights, rows=rows, cols=cols), plan.kernel, gradient
    )


KERNELS = conv_gradient_kernels(
    "jax",
    jnp,
    of_input=_of_input,
    of_filter=_of_filter,
    of_depthwise_input=_of_depthwise_input,
    of_depthwise_filter=_of_depthwise_filter,
    types={"Conv2DBackpropInput": dtypes.FLOATING},  # JAX cannot transpose integer functions
)
