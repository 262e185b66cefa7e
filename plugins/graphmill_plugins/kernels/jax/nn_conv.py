"""Convolution kernels on JAX.

Their ops, checks and shapes are in `nn.conv.ops` and `nn.conv.plan`. Two algorithms are faster on
XLA's CPU backend: a 1x1 convolution as a matrix product, and a depthwise one as shifted
multiply-adds (XLA's own is 10 to 40 times slower). Other platforms get XLA's convolution; the
choice is made when the program is lowered.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill_plugins._lazy_jax import jnp, lax
from graphmill_plugins.kernels._support import widen
from graphmill_plugins.kernels.jax._trace_once import trace_once
from graphmill_plugins.kernels.jax.nn_conv_groups import convolve_parts, groups_of_part
from graphmill_plugins.kernels.jax.nn_winograd import is_worth_it, winograd
from graphmill_plugins.kernels.nn.conv.ops import conv_kernels
from graphmill_plugins.kernels.nn.window import Axis, make_axis

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphmill.spi import Value
    from graphmill_plugins.kernels.nn.conv.plan import ConvPlan

_SPATIAL = {1: "W", 2: "HW", 3: "DHW"}
_MAX_GATHERED_WINDOWS = 64
_MIN_GATHERED_CHANNELS = 64
_IMAGE, _VOLUME = 2, 3  # spatial axes
_MAX_SHIFTED_TAPS = 25
_MAX_SHIFTED_CHANNELS = 4
_MIN_LOOPED_COLUMNS = 5  # taps of a row


def convolve(x: Value, kernel: Value, axes: Sequence[Axis], groups: int) -> Value:
    """Convolve channels-last `x` with `kernel` (spatial …, in / groups, out)."""
    spatial = _SPATIAL[len(axes)]
    return lax.conv_general_dilated(
        x,
        kernel,
        window_strides=[axis.stride for axis in axes],
        padding=[(axis.before, axis.after) for axis in axes],
        rhs_dilation=[axis.dilation for axis in axes],
        dimension_numbers=(f"N{spatial}C", f"{spatial}IO", f"N{spatial}C"),
        feature_group_count=groups,
    )


def _pointwise(x: Value, kernel: Value, axes: Sequence[Axis]) -> Value:
    """Convolve with a window of one tap: a product over the channels."""
    slices = tuple(slice(0, (axis.out - 1) * axis.stride + 1, axis.stride) for axis in axes)
    weights = kernel.reshape(kernel.shape[-2:])
    return jnp.matmul(x[(slice(None), *slices)], weights)


def _grouped(x: Value, kernel: Value, axes: Sequence[Axis], groups: int) -> Value:
    """Convolve in groups of channels: by XLA's own algorithm, or by parts of several groups."""
    if groups == x.shape[-1] and len(axes) == _IMAGE:
        return depthwise(x, kernel.reshape(*kernel.shape[:2], groups, -1), *axes)
    default = partial(convolve, axes=axes, groups=groups)
    merged = groups_of_part(x.shape[-1], groups)
    if not merged:
        return default(x, kernel)
    part = partial(convolve, axes=axes, groups=1)
    on_cpu = partial(convolve_parts, groups=groups, merged=merged, convolve=part)
    return lax.platform_dependent(x, kernel, cpu=on_cpu, default=default)


def _dense(x: Value, kernel: Value, axes: Sequence[Axis]) -> Value:
    """Convolve by the fastest algorithm for the shapes: XLA's own, or one of three alternatives.

    A matrix product is faster if most of the memory traffic is weights (the last layers of a
    network for one image), a sum over the taps for a single channel (the first layer for grey
    images), and blocks as large as the stride for few channels (the first layer for RGB images).
    """
    windows = x.shape[0] * math.prod(axis.out for axis in axes)
    is_weight_bound = windows <= _MAX_GATHERED_WINDOWS and x.shape[-1] >= _MIN_GATHERED_CHANNELS
    is_small = math.prod(axis.kernel for axis in axes) <= _MAX_SHIFTED_TAPS
    is_single_channel = is_small and x.shape[-1] == 1
    has_blocks = is_small and x.shape[-1] <= _MAX_SHIFTED_CHANNELS and all(map(_is_strided, axes))
    if is_single_channel:
        on_cpu = shifted_products
    elif is_weight_bound:
        on_cpu = gathered
    elif len(axes) == _VOLUME:
        on_cpu = over_slices
    elif has_blocks:
        on_cpu = over_blocks
    else:
        return convolve(x, kernel, axes, 1)
    return lax.platform_dependent(
        x,
        kernel,
        cpu=partial(on_cpu, axes=axes),
        default=partial(convolve, axes=axes, groups=1),
    )


def over_slices(x: Value, kernel: Value, axes: Sequence[Axis]) -> Value:
    """Convolve volumes as images, with the depth of the window as channels."""
    depth, *flat = axes
    images = slices_as_channels(x, depth)
    weights = jnp.moveaxis(kernel, 0, 2).reshape(*kernel.shape[1:3], images.shape[-1], -1)
    result = _dense(images, weights, flat)
    return result.reshape(x.shape[0], depth.out, *result.shape[1:])


def slices_as_channels(x: Value, depth: Axis) -> Value:
    """Return volumes (N, D, H, W, C) as images, one for each window along the depth.

    The slices that a window reads become the channels of its image.
    """
    x = jnp.pad(x, [(0, 0), (depth.before, depth.after), (0, 0), (0, 0), (0, 0)])
    taps = [x[:, depth.taps(tap)] for tap in range(depth.kernel)]
    return jnp.concatenate(taps, -1).reshape(-1, *x.shape[2:4], depth.kernel * x.shape[4])


def _is_strided(axis: Axis) -> bool:
    return axis.kernel > axis.stride > 1 and axis.dilation == 1


def shifted(x: Value, axes: Sequence[Axis]) -> list[Value]:
    """Return for each tap, in row-major order, the inputs that it reads for all windows."""
    pads = [(0, 0), *((axis.before, axis.after) for axis in axes), (0, 0)]
    x = jnp.pad(x, pads)
    return [
        x[(slice(None), *(axis.taps(tap) for axis, tap in zip(axes, taps, strict=True)))]
        for taps in np.ndindex(*(axis.kernel for axis in axes))
    ]


def gathered(x: Value, kernel: Value, axes: Sequence[Axis]) -> Value:
    """Gather the taps of each window into a row, and convolve as one matrix product (im2col)."""
    rows = jnp.concatenate(shifted(x, axes), -1)
    return jnp.matmul(rows, kernel.reshape(-1, kernel.shape[-1]))


def shifted_products(x: Value, kernel: Value, axes: Sequence[Axis]) -> Value:
    """Convolve one channel as a sum of products, one for each tap; XLA fuses them into one loop."""
    weights = kernel.reshape(-1, kernel.shape[-1])
    parts = [part * weights[tap] for tap, part in enumerate(shifted(x, axes))]
    return functools.reduce(jnp.add, parts)


def over_blocks(x: Value, kernel: Value, axes: Sequence[Axis]) -> Value:
    """Convert blocks as large as the stride to channels, and convolve them with stride one.

    The window is padded to whole blocks with weights of zero.
    """
    reach = [-(-axis.kernel // axis.stride) for axis in axes]
    strides = [axis.stride for axis in axes]
    blocks = [axis.out + blocks - 1 for axis, blocks in zip(axes, reach, strict=True)]
    sizes = [count * stride for count, stride in zip(blocks, strides, strict=True)]
    missing_after = [size - axis.before - axis.size for axis, size in zip(axes, sizes, strict=True)]
    pads = [(axis.before, max(0, after)) for axis, after in zip(axes, missing_after, strict=True)]
    x = jnp.pad(x, [(0, 0), *pads, (0, 0)])
    x = _blocks(x[(slice(None), *map(slice, sizes))], 1, blocks, strides)
    missing = [
        (0, count * stride - axis.kernel)
        for axis, count, stride in zip(axes, reach, strides, strict=True)
    ]
    kernel = jnp.pad(kernel, [*missing, (0, 0), (0, 0)])
    weights = _blocks(kernel, 0, reach, strides)
    plain = [
        make_axis(count, taps, 1, 1, "VALID") for count, taps in zip(blocks, reach, strict=True)
    ]
    return convolve(x, weights, plain, 1)


def _blocks(x: Value, first: int, counts: Sequence[int], sizes: Sequence[int]) -> Value:
    """Split the axes from `first` on into blocks, and merge their elements into the next axis."""
    rank = len(counts)
    before, after = x.shape[:first], x.shape[first + rank :]
    pairs = [size for pair in zip(counts, sizes, strict=True) for size in pair]
    x = x.reshape(*before, *pairs, *after)
    outer = range(first, first + 2 * rank, 2)
    inner = range(first + 1, first + 2 * rank, 2)
    rest = range(first + 2 * rank, x.ndim)
    x = x.transpose(*range(first), *outer, *inner, *rest)
    return x.reshape(*before, *counts, math.prod(sizes) * after[0], *after[1:])


def run_convolution(x: Value, kernel: Value, plan: ConvPlan) -> Value:
    """Convolve channels-last `x` with `kernel`, with sums in a wide type."""
    axes, groups = plan.axes, plan.groups
    dtype, wide = x.dtype, widen(x.dtype)
    if 0 in plan.out or 0 in plan.kernel or x.size == 0:
        out = jnp.zeros(plan.out, dtype)
    elif groups == 1 and all(axis.is_pointwise for axis in axes):
        out = _pointwise(x.astype(wide), kernel.astype(wide), axes)
    elif is_worth_it(x, kernel, axes, groups):
        out = winograd(x, kernel, axes)
    elif groups > 1:
        out = _grouped(x.astype(wide), kernel.astype(wide), axes, groups)
    else:
        out = _dense(x.astype(wide), kernel.astype(wide), axes)
    return out.astype(dtype)


def shifted_depthwise(x: Value, kernel: Value, *, rows: Axis, cols: Axis) -> Value:
    """Convolve as a sum of shifted images times weights, which XLA fuses into one loop.

    Images get two axes for the tap, and the weights are broadcast together. So a tap is four
    operations; it would be seven if the weights of each one were broadcast.
    """
    multiplier = kernel.shape[3]
    pads = ((0, 0), (rows.before, rows.after), (cols.before, cols.after), (0, 0))
    x = jnp.pad(x, pads)
    if multiplier != 1:
        x = jnp.repeat(x, multiplier, axis=3)
    taps, batch, channels = kernel.shape[:2], x.shape[0], x.shape[3]
    weights = kernel.reshape(*taps, channels)
    weights = lax.broadcast_in_dim(weights, (*taps, batch, rows.out, cols.out, channels), (0, 1, 5))
    images = lax.expand_dims(x, (0, 1))
    out = None
    for row, column in np.ndindex(*taps):
        part = _sliced(images, {3: rows.taps(row), 4: cols.taps(column)})
        part *= _sliced(weights, {0: slice(row, row + 1), 1: slice(column, column + 1)})
        out = part if out is None else out + part
    return lax.squeeze(out, (0, 1))


def looped_depthwise(x: Value, kernel: Value, *, rows: Axis, cols: Axis) -> Value:
    """Convolve row by row of the window, in a loop that XLA compiles once for all rows.

    Large windows are not one sum of their taps, which exceeds the registers and the cache.
    """
    if kernel.shape[3] != 1:
        x = jnp.repeat(x, kernel.shape[3], axis=3)
        kernel = kernel.reshape(*kernel.shape[:2], -1, 1)
    x = jnp.pad(x, ((0, 0), (rows.before, rows.after), (cols.before, cols.after), (0, 0)))
    height = (rows.out - 1) * rows.stride + 1
    row_axis = replace(rows, size=height, kernel=1, dilation=1, before=0, after=0)
    axes = {"rows": row_axis, "cols": replace(cols, size=cols.padded, before=0, after=0)}

    def add_row(row: Value, total: Value) -> Value:
        part = lax.dynamic_slice_in_dim(x, row * rows.dilation, height, axis=1)
        return total + shifted_depthwise(part, lax.dynamic_slice_in_dim(kernel, row, 1), **axes)

    zeros = jnp.zeros((x.shape[0], rows.out, cols.out, x.shape[3]), x.dtype)
    return lax.fori_loop(np.int32(0), np.int32(rows.kernel), add_row, zeros)


def summed_depthwise(x: Value, kernel: Value, *, rows: Axis, cols: Axis) -> Value:
    """Convolve as a sum of shifted images: of all taps, or of one row of a large window at once."""
    is_large = rows.kernel * cols.kernel > _MAX_SHIFTED_TAPS
    is_looped = is_large and rows.kernel > 1 and cols.kernel >= _MIN_LOOPED_COLUMNS
    return (looped_depthwise if is_looped else shifted_depthwise)(x, kernel, rows=rows, cols=cols)


def _sliced(x: Value, slices: Mapping[int, slice]) -> Value:
    """Return slices along some axes, as one operation."""
    ranges = [slices.get(axis, slice(0, size)) for axis, size in enumerate(x.shape)]
    return lax.slice(
        x,
        [one.start for one in ranges],
        [one.stop for one in ranges],
        [one.step or 1 for one in ranges],
    )


def grouped_depthwise(x: Value, kernel: Value, *, rows: Axis, cols: Axis) -> Value:
    """Convolve with as many groups as channels, by XLA's own algorithm."""
    channels, multiplier = kernel.shape[2:]
    grouped = kernel.reshape(*kernel.shape[:2], 1, channels * multiplier)
    return convolve(x, grouped, (rows, cols), channels)


@trace_once("rows", "cols")
def depthwise(x: Value, kernel: Value, rows: Axis, cols: Axis) -> Value:
    """Convolve every channel of `x` (N, H, W, C) with its own `kernel` (KH, KW, C, M)."""
    return lax.platform_dependent(
        x,
        kernel,
        cpu=partial(summed_depthwise, rows=rows, cols=cols),
        default=partial(grouped_depthwise, rows=rows, cols=cols),
    )


def _run_depthwise(x: Value, kernel: Any, plan: ConvPlan) -> Value:
    dtype, wide = x.dtype, widen(x.dtype)
    if 0 in plan.out or 0 in plan.kernel:
        return jnp.zeros(plan.out, dtype)
    return depthwise(x.astype(wide), jnp.asarray(kernel, wide), *plan.axes).astype(dtype)


KERNELS = conv_kernels("jax", jnp, convolve=run_convolution, depthwise=_run_depthwise)
