"""Gradients of convolutions where XLA's transposed convolutions are slow.

`nn_conv_grad` chooses between these. The measurements are in
`docs/explanation/jax-kernels-on-cpu.md`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill_plugins._lazy_jax import jax, jnp, lax
from graphmill_plugins.kernels.jax.nn_conv import convolve, over_slices, slices_as_channels
from graphmill_plugins.kernels.nn.conv.numpy_grad import transposed_axis

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import Value
    from graphmill_plugins.kernels.nn.window import Axis


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


def spread_products(gradient: Value, weights: Value, axes: Sequence[Axis]) -> Value:
    """Multiply for all taps at once, and add the products at their input positions.

    Taps a stride apart read inputs of neighbouring windows; the taps in between fill the gaps. So
    blocks as large as the stride are summed, and placed side by side at the end.
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

    def forward(weights: Value) -> Value:
        return convolve(images, weights, flat, 1)

    products = transposed(forward, (*shape[1:3], images.shape[-1], shape[-1]), out_gradient)
    return jnp.moveaxis(products.reshape(*shape[1:3], shape[0], *shape[3:]), 2, 0)


def gradient_product(image: Value, gradient: Value, axes: Sequence[Axis]) -> Value:
    """Return the gradient (1 …, in, out) of the weights of a window with one tap."""
    seen = image[(slice(None), *(slice(None, None, axis.stride) for axis in axes))]
    rows, columns = seen.shape[-1], gradient.shape[-1]
    product = jnp.matmul(seen.reshape(-1, rows).T, gradient.reshape(-1, columns))
    return product.reshape(*(1 for _ in axes), rows, columns)
