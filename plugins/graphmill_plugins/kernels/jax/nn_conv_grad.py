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
from graphmill_plugins.kernels.jax.nn_conv import convolve, grouped_depthwise, shifted_depthwise
from graphmill_plugins.kernels.nn.conv import CONV_TYPES, widen
from graphmill_plugins.kernels.nn.conv_grad import (
    depthwise_plan,
    input_plan,
    kernel_plan,
    sizes_of,
    windows_3d,
)
from graphmill_plugins.kernels.nn.window import Axis, Windows, make_windows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.typing import ArrayNamespace, Value

    Run = Callable[[Value, Value, Value], Value]

_FEW_TAPS: Final = 25


def _transposed(function: Callable[[Value], Value], shape: Sequence[int], gradient: Value) -> Value:
    """Return the transpose of a linear `function` of a tensor of `shape`, applied to `gradient`."""
    if 0 in shape or gradient.size == 0:
        return jnp.zeros(shape, gradient.dtype)
    argument = jax.ShapeDtypeStruct(tuple(shape), gradient.dtype)
    return jax.linear_transpose(function, argument)(gradient)[0]


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
                cpu=partial(_spread_products, axes=plan.axes),
                default=lambda given, _: _transposed(forward, plan.shape, given),
            )
        else:
            out = _transposed(forward, plan.shape, gradient.astype(wide))
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


def _spread_products(gradient: Value, weights: Value, axes: Sequence[Axis]) -> Value:
    """Multiply for all taps at once, and add the parts where they lie on the input.

    Taps that are a stride apart lie on the inputs of neighbouring windows, those between fill the
    gaps: so blocks as large as a stride are added, and the blocks laid side by side at the end.
    """
    depth, width = weights.shape[-2:]
    taps = weights.shape[:-2]
    parts = jnp.matmul(gradient, weights.reshape(-1, width).T)
    parts = parts.reshape(*gradient.shape[:-1], *taps, depth)
    reach = [-(-axis.kernel // axis.stride) for axis in axes]
    total: Any = None
    for block in np.ndindex(*reach):
        part = _block(parts, block, reach, axes)
        total = part if total is None else total + part
    return _side_by_side(total, axes)


def _block(parts: Value, block: Sequence[int], reach: Sequence[int], axes: Sequence[Axis]) -> Value:
    """Return the taps of one block (batch, windows …, stride …, depth), moved to their windows."""
    picked, pads = [], []
    for number, axis in zip(block, axes, strict=True):
        first = number * axis.stride
        picked.append(slice(first, first + axis.stride))
        pads.append((0, max(0, first + axis.stride - axis.kernel)))
    moves = [(number, last - 1 - number) for number, last in zip(block, reach, strict=True)]
    part = parts[(slice(None), *(slice(None) for _ in axes), *picked)]
    return jnp.pad(part, [(0, 0), *moves, *pads, (0, 0)])


def _side_by_side(blocks: Value, axes: Sequence[Axis]) -> Value:
    """Return blocks (batch, windows …, stride …, depth) as (batch, inputs …, depth)."""
    rank = len(axes)
    order = [place for axis in range(rank) for place in (1 + axis, 1 + rank + axis)]
    rows = blocks.transpose(0, *order, 2 * rank + 1)
    sizes = [blocks.shape[1 + number] * axis.stride for number, axis in enumerate(axes)]
    rows = rows.reshape(blocks.shape[0], *sizes, blocks.shape[-1])
    missing = [
        (0, max(0, axis.before + axis.size - size)) for axis, size in zip(axes, sizes, strict=True)
    ]
    rows = jnp.pad(rows, [(0, 0), *missing, (0, 0)])
    return rows[(slice(None), *(slice(axis.before, axis.before + axis.size) for axis in axes))]


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
        return _transposed(forward, shape, given).astype(dtype)

    return run


@kernel(
    "Conv2DBackpropInput",
    backend="jax",
    make=True,
    types={"T": dtypes.FLOATING},  # JAX transposes no functions of integers
    static=("input_sizes",),
    expensive=True,
)
def conv2d_backprop_input(
    xp: ArrayNamespace,
    strides: tuple[int, ...],
    padding: str,
    explicit_paddings: tuple[int, ...],
    data_format: str,
    dilations: tuple[int, ...],
) -> Run:
    """Return the gradient of a Conv2D's input, or the transposed convolution of images."""
    del xp
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
    xp: ArrayNamespace,
    strides: tuple[int, ...],
    padding: str,
    explicit_paddings: tuple[int, ...],
    data_format: str,
    dilations: tuple[int, ...],
) -> Run:
    """Return the gradient of a Conv2D's kernel."""
    del xp
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
    xp: ArrayNamespace,
    strides: tuple[int, ...],
    padding: str,
    data_format: str,
    dilations: tuple[int, ...],
) -> Run:
    """Return the gradient of a Conv3D's input, or the transposed convolution of volumes."""
    del xp
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
    xp: ArrayNamespace, strides: tuple[int, ...], padding: str, dilations: tuple[int, ...]
) -> Run:
    """Return the gradient of a Conv3D's input, which is given to tell its shape."""
    del xp
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
    xp: ArrayNamespace,
    strides: tuple[int, ...],
    padding: str,
    data_format: str,
    dilations: tuple[int, ...],
) -> Run:
    """Return the gradient of a Conv3D's kernel."""
    del xp
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
    xp: ArrayNamespace, strides: tuple[int, ...], padding: str, dilations: tuple[int, ...]
) -> Run:
    """Return the gradient of a Conv3D's kernel, which is given to tell its shape."""
    del xp
    run = _kernel_gradient(windows_3d("Conv3DBackpropFilter", strides, padding, "NDHWC", dilations))
    return lambda x, filters, gradient: run(x, np.array(filters.shape), gradient)


def _by_platform(
    make: Callable[[Any], Callable[[Value], Value]], shape: Sequence[int], gradient: Value
) -> Value:
    """Transpose the depthwise lowering that the forward kernel takes on each platform."""
    return jax.lax.platform_dependent(
        gradient,
        cpu=partial(_transposed, make(shifted_depthwise), shape),
        default=partial(_transposed, make(grouped_depthwise), shape),
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
    xp: ArrayNamespace,
    strides: tuple[int, ...],
    padding: str,
    explicit_paddings: tuple[int, ...],
    data_format: str,
    dilations: tuple[int, ...],
) -> Run:
    """Return the gradient of a depthwise convolution's input."""
    del xp
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
    xp: ArrayNamespace,
    strides: tuple[int, ...],
    padding: str,
    explicit_paddings: tuple[int, ...],
    data_format: str,
    dilations: tuple[int, ...],
) -> Run:
    """Return the gradient of a depthwise convolution's kernel."""
    del xp
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
