"""Gradients of channels-last convolutions of NumPy arrays.

With stride 1, the gradient of the input is a convolution with the flipped kernel. With any other
stride, each tap takes one product and one shifted addition. The gradient of the kernel is the
product of the transposed windows (in blocks) and the gradient of the output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.spi.kernels import cancellable
from graphmill_plugins.kernels._matmul import product
from graphmill_plugins.kernels.nn.conv.image_windows import (
    BLOCK_BYTES,
    pad_image,
    patch_blocks,
    patches,
)
from graphmill_plugins.kernels.nn.conv.numpy_conv import conv2d
from graphmill_plugins.kernels.nn.window import Axis

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def transposed_axis(axis: Axis) -> Axis:
    """Return the windows of the transposed convolution: for each input, the outputs it affects."""
    before = axis.span - 1 - axis.before
    after = axis.size + axis.span - 1 - axis.out - before
    return Axis(axis.out, axis.kernel, 1, axis.dilation, before, after, axis.size)


def _reach(axis: Axis) -> int:
    """Return the number of elements of the padded input that the windows and the input cover."""
    return max((axis.out - 1) * axis.stride + axis.span, axis.before + axis.size)


def input_gradient_2d(kernel: Array, gradient: Array, rows: Axis, cols: Axis) -> Array:
    """Return the gradient (N, H, W, C) of the input of a convolution without groups."""
    depth, width = kernel.shape[2:]
    shape = (gradient.shape[0], rows.size, cols.size, depth)
    if gradient.size == 0 or kernel.size == 0:
        return np.zeros(shape, gradient.dtype)
    flipped = transposed_axis(rows), transposed_axis(cols)
    if (
        rows.stride == cols.stride == 1
        and min(flipped[0].before, flipped[0].after, flipped[1].before, flipped[1].after) >= 0
    ):
        weights = np.ascontiguousarray(kernel[::-1, ::-1].swapaxes(2, 3))
        return conv2d(gradient, weights, *flipped)
    padded = np.zeros((shape[0], _reach(rows), _reach(cols), depth), gradient.dtype)
    matrix = np.ascontiguousarray(gradient).reshape(-1, width)
    for kernel_row, kernel_col in cancellable(np.ndindex(rows.kernel, cols.kernel), 1):
        part = product(matrix, kernel[kernel_row, kernel_col].T)
        target = padded[:, rows.taps(kernel_row), cols.taps(kernel_col)]
        np.add(target, part.reshape(*gradient.shape[:3], depth), out=target)
    return padded[:, rows.before : rows.before + rows.size, cols.before : cols.before + cols.size]


def input_gradient(kernel: Array, gradient: Array, axes: tuple[Axis, ...], depth: int) -> Array:
    """Return the gradient of a channels-last input with `depth` channels, for any groups."""
    groups = depth // kernel.shape[-2]
    if groups > 1:
        width = kernel.shape[-1] // groups
        parts = [slice(group * width, (group + 1) * width) for group in range(groups)]
        return np.concatenate(
            [
                input_gradient(kernel[..., part], gradient[..., part], axes, kernel.shape[-2])
                for part in parts
            ],
            axis=-1,
        )
    if len(axes) == 2:
        return input_gradient_2d(kernel, gradient, *axes)
    planes, rows, cols = axes
    shape = (gradient.shape[0], *(axis.size for axis in axes), depth)
    out = np.zeros(shape, gradient.dtype)
    for tap in cancellable(range(planes.kernel), 1):
        windows, inputs = planes.overlap(tap)
        part = gradient[:, windows]
        flat = part.reshape(-1, *part.shape[2:])
        result = input_gradient_2d(kernel[tap], flat, rows, cols)
        out[:, inputs] += result.reshape(*part.shape[:2], *result.shape[1:])
    return out


def kernel_gradient_2d(x: Array, gradient: Array, rows: Axis, cols: Axis) -> Array:
    """Return the gradient (KH, KW, C, O) of the kernel of a convolution without groups."""
    depth, width = x.shape[-1], gradient.shape[-1]
    total = np.zeros((rows.kernel * cols.kernel * depth, width), x.dtype)
    if x.size and gradient.size:
        windows = patches(pad_image(x, rows, cols), rows, cols)
        for images, out_rows in patch_blocks(windows.shape, x.itemsize, BLOCK_BYTES):
            matrix = windows[images, out_rows].reshape(-1, len(total))
            total += product(matrix.T, gradient[images, out_rows].reshape(-1, width))
    return total.reshape(rows.kernel, cols.kernel, depth, width)


def kernel_gradient(x: Array, gradient: Array, axes: tuple[Axis, ...], groups: int) -> Array:
    """Return the gradient of the kernel (spatial …, in / groups, out)."""
    if groups > 1:
        depth, width = x.shape[-1] // groups, gradient.shape[-1] // groups
        return np.concatenate(
            [
                kernel_gradient(
                    x[..., group * depth : (group + 1) * depth],
                    gradient[..., group * width : (group + 1) * width],
                    axes,
                    1,
                )
                for group in range(groups)
            ],
            axis=-1,
        )
    if len(axes) == 2:
        return kernel_gradient_2d(x, gradient, *axes)
    planes, rows, cols = axes
    parts = []
    for tap in cancellable(range(planes.kernel), 1):
        windows, inputs = planes.overlap(tap)
        before, after = x[:, inputs], gradient[:, windows]
        flat = before.reshape(-1, *before.shape[2:]), after.reshape(-1, *after.shape[2:])
        parts.append(kernel_gradient_2d(*flat, rows, cols))
    return np.stack(parts)


def depthwise_input_gradient(kernel: Array, gradient: Array, rows: Axis, cols: Axis) -> Array:
    """Return the gradient (N, H, W, C) of the input of a depthwise convolution."""
    channels, multiplier = kernel.shape[2:]
    padded = np.zeros((gradient.shape[0], _reach(rows), _reach(cols), channels), gradient.dtype)
    split = gradient.reshape(*gradient.shape[:3], channels, multiplier)
    taps = np.ndindex(rows.kernel, cols.kernel) if gradient.size else ()
    for kernel_row, kernel_col in cancellable(taps, 1):
        target = padded[:, rows.taps(kernel_row), cols.taps(kernel_col)]
        for index in range(multiplier):
            target += split[..., index] * kernel[kernel_row, kernel_col, :, index]
    return padded[:, rows.before : rows.before + rows.size, cols.before : cols.before + cols.size]


def depthwise_kernel_gradient(
    x: Array, gradient: Array, rows: Axis, cols: Axis, multiplier: int
) -> Array:
    """Return the gradient (KH, KW, C, M) of the kernel of a depthwise convolution."""
    channels = x.shape[3]
    out = np.zeros((rows.kernel, cols.kernel, channels, multiplier), x.dtype)
    if x.size == 0 or gradient.size == 0:
        return out
    x = pad_image(x, rows, cols)
    split = gradient.reshape(*gradient.shape[:3], channels, multiplier)
    for kernel_row, kernel_col in cancellable(np.ndindex(rows.kernel, cols.kernel), 1):
        part = x[:, rows.taps(kernel_row), cols.taps(kernel_col)]
        out[kernel_row, kernel_col] = np.einsum("nhwc,nhwcm->cm", part, split)
    return out
