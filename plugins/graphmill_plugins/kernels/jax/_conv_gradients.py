"""Gradients of convolutions where XLA's transposed convolutions are slow.

`nn_conv_grad` chooses between these. The measurements are in
`docs/explanation/jax-kernels-on-cpu.md`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill_plugins._lazy_jax import jax, jnp, lax
from graphmill_plugins.kernels.jax.nn_conv import (
    convolve,
    over_slices,
    shifted,
    slices_as_channels,
    summed_depthwise,
)
from graphmill_plugins.kernels.nn.conv.numpy_grad import transposed_axis
from graphmill_plugins.kernels.nn.window import Axis, make_axis

_MAX_UNROLLED_TAPS: Final = 25  # each is a product, and takes 40 ms to compile
_MAX_IMAGES: Final = 16
_MAX_SHIFTED_WIDTH: Final = 16  # channels of the gradient
_MAX_SHIFTED_SIZE: Final = 1 << 20  # elements of all shifted gradients; more leave the cache

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import Value


def transposed(function: Callable[[Value], Value], shape: Sequence[int], gradient: Value) -> Value:
    """Return the transpose of a linear `function` of a tensor of `shape`, applied to `gradient`."""
    if 0 in shape or gradient.size == 0:
        return jnp.zeros(shape, gradient.dtype)
    argument = jax.ShapeDtypeStruct(tuple(shape), gradient.dtype)
    return jax.linear_transpose(function, argument)(gradient)[0]


def flipped_convolution(gradient: Value, weights: Value, axes: Sequence[Axis]) -> Value:
    """Return the gradient of volumes for windows with stride one: a convolution."""
    kernel = weights[::-1, ::-1, ::-1].swapaxes(-1, -2)
    return over_slices(gradient, kernel, [transposed_axis(axis) for axis in axes])


def flipped_images(gradient: Value, weights: Value, axes: Sequence[Axis]) -> Value:
    """Return the gradient of images for windows with stride one: a convolution.

    It is as fast as XLA's own transpose, and oneDNN can compute it.
    """
    kernel = weights[::-1, ::-1].swapaxes(-1, -2)
    return convolve(gradient, kernel, [transposed_axis(axis) for axis in axes], 1)


def flipped_depthwise(gradient: Value, weights: Value, *, rows: Axis, cols: Axis) -> Value:
    """Return the gradient of images for depthwise windows with stride one: such a convolution.

    Its transpose would add a padded image for each tap.
    """
    *taps, channels, multiplier = weights.shape
    kernel = weights[::-1, ::-1].reshape(*taps, channels * multiplier, 1)
    axes = {"rows": transposed_axis(rows), "cols": transposed_axis(cols)}
    parts = summed_depthwise(gradient, kernel, **axes)
    return parts.reshape(*parts.shape[:3], channels, multiplier).sum(-1)


def summed_depthwise_gradient(image: Value, gradient: Value, *, rows: Axis, cols: Axis) -> Value:
    """Return the gradient (KH, KW, C, M) of depthwise weights: for each tap, a sum over windows.

    The sum over images and rows is a product by ones, because XLA adds columns one by one.
    """
    count, height, width, channels = gradient.shape
    multiplier = channels // image.shape[-1]
    images = jnp.repeat(image, multiplier, axis=3)
    ones = jnp.ones((1, count * height), gradient.dtype)

    def by_column(part: Value) -> Value:
        return ones @ (part * gradient).reshape(count * height, width * channels)

    if rows.kernel * cols.kernel <= _MAX_UNROLLED_TAPS:
        parts = shifted(images, [rows, cols])
        sums = lax.optimization_barrier(jnp.concatenate(list(map(by_column, parts))))
    else:
        sums = _map_taps(by_column, images, rows, cols)
    shape = rows.kernel, cols.kernel, image.shape[-1], multiplier
    return sums.reshape(-1, width, channels).sum(1).reshape(shape)


def _map_taps(function: Callable[[Value], Value], images: Value, rows: Axis, cols: Axis) -> Value:
    """Return a function of what each tap reads for all windows; compiled once for all taps."""
    pads = [(0, 0), (rows.before, rows.after), (cols.before, cols.after), (0, 0)]
    padded = jnp.pad(images, pads)
    height, width = ((axis.out - 1) * axis.stride + 1 for axis in (rows, cols))
    sizes = images.shape[0], height, width, images.shape[-1]
    zero = np.int32(0)

    def of_tap(start: Value) -> Value:
        seen = lax.dynamic_slice(padded, (zero, start[0], start[1], zero), sizes)
        return function(seen[:, :: rows.stride, :: cols.stride])

    taps = np.array(list(np.ndindex(rows.kernel, cols.kernel)), np.int32)
    return lax.map(of_tap, jnp.asarray(taps * np.array([rows.dilation, cols.dilation], np.int32)))


def spread_products(gradient: Value, weights: Value, axes: Sequence[Axis]) -> Value:
    """Multiply for all taps at once, and add the products at their input positions.

    Taps a stride apart read inputs of neighbouring windows; the taps in between fill the gaps. So
    blocks as large as the stride are summed, and placed side by side at the end.
    """
    depth, width = weights.shape[-2:]
    taps = weights.shape[:-2]
    parts = jnp.matmul(gradient, weights.reshape(-1, width).T)
    parts = parts.reshape(*gradient.shape[:-1], *taps, depth)
    reach = _reach(axes)
    total: Any = None
    for block in np.ndindex(*reach):
        part = _block(parts, block, reach, axes)
        total = part if total is None else total + part
    return _side_by_side(total, axes)


def convolved_blocks(gradient: Value, weights: Value, axes: Sequence[Axis]) -> Value:
    """Convolve the gradient once; the channels are blocks of inputs as large as the stride.

    The window must consist of whole blocks.
    """
    rank, (depth, width) = len(axes), weights.shape[-2:]
    reach, strides = _reach(axes), [axis.stride for axis in axes]
    sizes = [size for pair in zip(reach, strides, strict=True) for size in pair]
    outer, inner = range(0, 2 * rank, 2), range(1, 2 * rank, 2)
    weights = jnp.flip(weights.reshape(*sizes, depth, width), outer)
    kernel = weights.transpose(*outer, 2 * rank + 1, *inner, 2 * rank).reshape(*reach, width, -1)
    blocks = convolve(gradient, kernel, _axes_of_blocks(axes, reach), 1)
    return _side_by_side(blocks.reshape(*blocks.shape[:-1], *strides, depth), axes)


def convolved_phases(gradient: Value, weights: Value, axes: Sequence[Axis]) -> Value:
    """Convolve the gradient once for each position of an input in its block.

    Such a position is reached by every `stride`-th tap only.
    """
    rank, strides = len(axes), [axis.stride for axis in axes]
    phases = []
    for phase in np.ndindex(*strides):
        taps = weights[
            tuple(slice(n, None, axis.stride) for n, axis in zip(phase, axes, strict=True))
        ]
        kernel = jnp.flip(taps, range(rank)).swapaxes(-1, -2)
        phases.append(convolve(gradient, kernel, _axes_of_blocks(axes, taps.shape[:rank]), 1))
    blocks = jnp.stack(phases, -2)
    return _side_by_side(blocks.reshape(*blocks.shape[:-2], *strides, blocks.shape[-1]), axes)


def _reach(axes: Sequence[Axis]) -> list[int]:
    """Return for each axis the number of blocks, as large as the stride, of a window."""
    return [-(-axis.kernel // axis.stride) for axis in axes]


def _axes_of_blocks(axes: Sequence[Axis], taps: Sequence[int]) -> list[Axis]:
    """Return the windows of `taps` gradients that reach a block; there are blocks at all ends."""
    return [
        make_axis(axis.out, count, 1, 1, "EXPLICIT", count - 1, last - 1)
        for axis, count, last in zip(axes, taps, _reach(axes), strict=True)
    ]


def _block(parts: Value, block: Sequence[int], reach: Sequence[int], axes: Sequence[Axis]) -> Value:
    """Return the taps of one block (batch, windows …, stride …, depth), moved to their windows."""
    slices, pads = [], []
    for number, axis in zip(block, axes, strict=True):
        first = number * axis.stride
        slices.append(slice(first, first + axis.stride))
        pads.append((0, max(0, first + axis.stride - axis.kernel)))
    moves = [(number, last - 1 - number) for number, last in zip(block, reach, strict=True)]
    part = parts[(slice(None), *(slice(None) for _ in axes), *slices)]
    return jnp.pad(part, [(0, 0), *moves, *pads, (0, 0)])


def _side_by_side(blocks: Value, axes: Sequence[Axis]) -> Value:
    """Return blocks (batch, windows …, stride …, depth) as (batch, inputs …, depth)."""
    rank = len(axes)
    order = [axis_index for axis in range(rank) for axis_index in (1 + axis, 1 + rank + axis)]
    rows = blocks.transpose(0, *order, 2 * rank + 1)
    sizes = [blocks.shape[1 + number] * axis.stride for number, axis in enumerate(axes)]
    rows = rows.reshape(blocks.shape[0], *sizes, blocks.shape[-1])
    missing = [
        (0, max(0, axis.before + axis.size - size)) for axis, size in zip(axes, sizes, strict=True)
    ]
    rows = jnp.pad(rows, [(0, 0), *missing, (0, 0)])
    return rows[(slice(None), *(slice(axis.before, axis.before + axis.size) for axis in axes))]


def gradient_over_slices(
    image: Value, gradient: Value, axes: Sequence[Axis], shape: Sequence[int]
) -> Value:
    """Return the gradient of volume weights, by treating the slices of volumes as channels."""
    depth, *flat = axes
    images, out_gradient = lax.optimization_barrier(
        (slices_as_channels(image, depth), gradient.reshape(-1, *gradient.shape[2:]))
    )
    is_shifted = is_for_shifts(images.shape[-1], out_gradient.shape, flat)
    form = gradient_by_shifts if is_shifted else gradient_by_image
    products = form(images, out_gradient, flat)
    return jnp.moveaxis(products.reshape(*shape[1:3], shape[0], *shape[3:]), 2, 0)


def gradient_by_rows(image: Value, gradient: Value, axes: Sequence[Axis]) -> Value:
    """Return the gradient (spatial …, in, out) of weights: a product for each row of taps."""
    depth, width = image.shape[-1], gradient.shape[-1]
    taps = axes[-1].kernel
    parts = shifted(image, axes)
    out_gradient = gradient.reshape(-1, width)
    rows = [
        jnp.concatenate(parts[first : first + taps], -1).reshape(-1, taps * depth)
        for first in range(0, len(parts), taps)
    ]
    products = [jnp.matmul(row.T, out_gradient) for row in rows]
    return jnp.stack(products).reshape(*(axis.kernel for axis in axes), depth, width)


def gradient_by_image(image: Value, gradient: Value, axes: Sequence[Axis]) -> Value:
    """Return the gradient (spatial …, in, out) of weights: the image convolved with the gradient.

    The channels of the image become a batch, and the images of the batch channels. XLA's transpose
    has this form, too, but names the axes in another order, which oneDNN does not compute.

    Many images are convolved in pieces, which stay in the cache. Some window must reach the image.
    """
    count, piece = len(image), _MAX_IMAGES
    if count <= 2 * piece:
        return _by_image(image, gradient, axes)

    def add_piece(index: Value, total: Value) -> Value:
        start = index * np.int32(piece)
        images, gradients = (lax.dynamic_slice_in_dim(x, start, piece) for x in (image, gradient))
        return total + _by_image(images, gradients, axes)

    shape = (*(axis.kernel for axis in axes), image.shape[-1], gradient.shape[-1])
    zeros = jnp.zeros(shape, gradient.dtype)
    total = lax.fori_loop(np.int32(0), np.int32(count // piece), add_piece, zeros)
    rest = count % piece
    return total + _by_image(image[-rest:], gradient[-rest:], axes) if rest else total


def _by_image(image: Value, gradient: Value, axes: Sequence[Axis]) -> Value:
    turned = [taps_axis(axis) for axis in axes]
    read = image[(slice(None), *(slice(axis.size) for axis in turned))]
    kernel = jnp.moveaxis(gradient, 0, -2)
    return jnp.moveaxis(convolve(jnp.swapaxes(read, 0, -1), kernel, turned, 1), 0, -2)


def taps_axis(axis: Axis) -> Axis:
    """Return the windows of the convolution with the gradient: for each tap, what it reads.

    The end of the image is left out where no window reaches it. The size is not positive if none
    reaches the image at all.
    """
    reach = (axis.out - 1) * axis.stride + axis.span
    read = min(axis.size, reach - axis.before)
    after = reach - axis.before - read
    return Axis(read, axis.out, axis.dilation, axis.stride, axis.before, after, axis.kernel)


def is_for_shifts(depth: int, gradient: Sequence[int], axes: Sequence[Axis]) -> bool:
    """Return whether `gradient_by_shifts` is the fastest form: for few outputs of more inputs.

    Args:
        depth: the number of channels of the image.
        gradient: the shape of the gradient.
        axes: the axes of the windows.
    """
    width, taps = gradient[-1], math.prod(axis.kernel for axis in axes)
    return (
        width <= min(depth // 2, _MAX_SHIFTED_WIDTH)
        and taps <= _MAX_UNROLLED_TAPS
        and taps * math.prod(gradient) <= _MAX_SHIFTED_SIZE
        and all(axis.stride == axis.dilation == 1 for axis in axes)
    )


def gradient_by_shifts(image: Value, gradient: Value, axes: Sequence[Axis]) -> Value:
    """Return the gradient (spatial …, in, out) of weights with stride one: one product of all taps.

    The gradient is shifted to each tap rather than the image, which has more channels.
    """
    kernel = [axis.kernel for axis in axes]
    moved = []
    for taps in np.ndindex(*kernel):
        moves = [(tap, last - 1 - tap) for tap, last in zip(taps, kernel, strict=True)]
        moved.append(jnp.pad(gradient, [(0, 0), *moves, (0, 0)]))
    columns = jnp.concatenate(moved, -1)
    pads = [(axis.before, axis.after) for axis in axes]
    images = jnp.pad(image, [(0, 0), *pads, (0, 0)])
    depth, width = image.shape[-1], gradient.shape[-1]
    products = jnp.matmul(images.reshape(-1, depth).T, columns.reshape(-1, columns.shape[-1]))
    return jnp.moveaxis(products.reshape(depth, *kernel, width), 0, -2)


def gradient_product(image: Value, gradient: Value, axes: Sequence[Axis]) -> Value:
    """Return the gradient (1 …, in, out) of the weights of a window with one tap."""
    seen = image[(slice(None), *(slice(None, None, axis.stride) for axis in axes))]
    rows, columns = seen.shape[-1], gradient.shape[-1]
    product = jnp.matmul(seen.reshape(-1, rows).T, gradient.reshape(-1, columns))
    return product.reshape(*(1 for _ in axes), rows, columns)
