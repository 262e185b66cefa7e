"""Convolve channels-last NumPy arrays by matrix products.

The shape selects one of four methods. Times are of one image on 2 cores with OpenBLAS.

* One tap without padding (`_pointwise`): the image already is the matrix.
* Row stride 1 (`_by_rows`): copies the taps along a row side by side. Each row of the kernel adds
  one product that reads the same copy at an offset. This copies less than im2col by a factor of
  the kernel's height: 147x147x32 → 64 by 3x3 takes 8.8 ms instead of 12.2 ms, and 56x56x64 → 64
  takes 2.5 ms instead of 4.5 ms.
* Row stride above 1, or several small images (`_by_patches`): im2col in blocks. 224x224x3 → 32 by
  3x3 with stride 2 takes 2.0 ms; im2col of the whole image takes 5.3 ms.
* Depthwise (`depthwise`): `np.einsum` adds the products of all taps in one pass over whole rows.
  On one core 112x112x32 by 3x3 takes 0.6 ms and 28x28x88 by 5x5 0.26 ms; a multiplication and an
  addition for each tap take 1.1 and 0.73 ms, an inner loop over the channels alone 2.5 and 0.46 ms.
  With a stride and few channels, the columns that a tap reads are first copied side by side:
  112x112x32 by 7x7 with stride 2 takes 0.7 ms instead of 1.7 ms.

Copied windows fit in the cache of a core: one core computes 56x56x128 → 32 by 3x3 in 3.6 ms with
blocks of 1 MB and in 5.0 ms with blocks of 8 MB. Each core processes blocks of its own.

No function writes to its inputs.
"""

from __future__ import annotations

from functools import partial
from math import gcd, prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from graphmill.spi.kernels import cancellable
from graphmill_plugins.kernels._helper_threads import HELPERS
from graphmill_plugins.kernels._matmul import product_alone, product_into
from graphmill_plugins.kernels._support import check_size, side_by_side
from graphmill_plugins.kernels.nn.conv.image_windows import pad_image, patches

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from graphmill_plugins.kernels.nn.window import Axis

    Array = NDArray[Any]

_BLOCK_BYTES = 1 << 20  # of copied windows: about the size of a core's L2 cache
_MIN_PIXELS = 256  # of a block; BLAS copies the weights for each, which few pixels do not repay
_MIN_SHARED = 1 << 23  # multiply-adds of a convolution: 0.2 ms on one core
_MIN_SHARED_DEPTHWISE = 1 << 21  # multiply-adds of a depthwise convolution: 0.3 ms on one core
_MAX_DEPTHWISE_WORK = 1 << 26  # multiply-adds of a piece: 10 ms, then a step can end
_MIN_LOOP = 128  # channels of a loop of its own: for fewer, columns are copied side by side
_SUM_OF_TAPS = "nrxijy,ijy->nrxy"


def conv2d(x: Array, kernel: Array, rows: Axis, cols: Axis) -> Array:
    """Convolve `x` (N, H, W, C) with `kernel` (KH, KW, C / groups, O) → (N, OH, OW, O).

    Both have the same dtype, which is also the dtype of the sums and the result.
    """
    depth = kernel.shape[2]
    groups = x.shape[3] // depth if depth else 1
    shape = (x.shape[0], rows.out, cols.out, kernel.shape[3])
    check_size(shape, itemsize=x.dtype.itemsize)
    out = np.empty(shape, x.dtype)
    if out.size == 0:
        return out
    if kernel.size == 0 or x.size == 0:
        out.fill(0)
        return out
    if rows.is_pointwise and cols.is_pointwise and groups == 1:
        return _pointwise(x, kernel, rows, cols, out)
    x = pad_image(x, rows, cols)
    is_small = x.shape[0] > 1 and rows.out * cols.out < _MIN_PIXELS  # a product of several images
    method = _by_patches if rows.stride > 1 or is_small else _by_rows
    width = kernel.shape[3] // groups
    for group in range(groups):
        inner = slice(group * depth, (group + 1) * depth)
        outer = slice(group * width, (group + 1) * width)
        if groups == 1:
            method(x, kernel, rows, cols, out)
        else:
            part = np.empty((*out.shape[:3], width), x.dtype)
            method(x[..., inner], np.ascontiguousarray(kernel[..., outer]), rows, cols, part)
            out[..., outer] = part
    return out


def _pointwise(x: Array, kernel: Array, rows: Axis, cols: Axis, out: Array) -> Array:
    x = x[:, : rows.size : rows.stride, : cols.size : cols.stride][:, : rows.out, : cols.out]
    matrix = x.reshape(-1, x.shape[3])
    product_into(matrix, kernel[0, 0], out.reshape(-1, out.shape[3]))
    return out


def _by_rows(x: Array, kernel: Array, rows: Axis, cols: Axis, out: Array) -> None:
    """Copy the taps of each row side by side, then add one product for each kernel row."""
    images, _, _, depth = x.shape
    taps = cols.kernel * depth
    weights = kernel.reshape(rows.kernel, taps, -1)
    steps = x.strides
    # source[n, h, ow, kw, c]: the taps along the row for every output column.
    source = as_strided(
        x,
        (images, x.shape[1], cols.out, cols.kernel, depth),
        (steps[0], steps[1], steps[2] * cols.stride, steps[2] * cols.dilation, steps[3]),
        writeable=False,
    )
    blocks = _blocks_of_windows(out.shape, taps * x.itemsize, kernel.size, rows.span - 1)
    multiply = product_into if len(blocks) == 1 else product_alone
    _share([partial(_rows_of_block, source, weights, rows, cut, out, multiply) for cut in blocks])


def _rows_of_block(
    source: Array,
    weights: Array,
    rows: Axis,
    cut: tuple[slice, slice],
    out: Array,
    multiply: Callable[[Array, Array, Array], object],
) -> None:
    """Write a block of images and rows of `out`, from the taps along the rows in `source`."""
    images, lines = cut
    target = out[cut]
    count, height, width = target.shape[:3]
    part = source[images, lines.start : lines.start + height + rows.span - 1]
    check_size(part.shape, "the copied windows", itemsize=source.itemsize)
    copied = np.ascontiguousarray(part)
    target = target.reshape(count, height * width, -1)
    product = np.empty_like(target) if rows.kernel > 1 else target
    for tap in cancellable(range(rows.kernel), 1):
        start = tap * rows.dilation
        matrix = copied[:, start : start + height].reshape(count, height * width, -1)
        into = product if tap else target
        for image_matrix, result in zip(matrix, into, strict=True):
            multiply(image_matrix, weights[tap], result)
        if tap:
            np.add(target, into, out=target)


def _by_patches(x: Array, kernel: Array, rows: Axis, cols: Axis, out: Array) -> None:
    """Copy whole windows block by block (im2col), and compute one product for each block."""
    source = patches(x, rows, cols)
    weights = kernel.reshape(-1, kernel.shape[3])
    blocks = _blocks_of_windows(out.shape, weights.shape[0] * x.itemsize, kernel.size, 0)
    multiply = product_into if len(blocks) == 1 else product_alone
    _share([partial(_patches_of_block, source, weights, cut, out, multiply) for cut in blocks])


def _patches_of_block(
    source: Array,
    weights: Array,
    cut: tuple[slice, slice],
    out: Array,
    multiply: Callable[[Array, Array, Array], object],
) -> None:
    check_size(source[cut].shape, "the copied windows", itemsize=source.itemsize)
    matrix = source[cut].reshape(-1, weights.shape[0])
    multiply(matrix, weights, out[cut].reshape(-1, out.shape[3]))


def _blocks_of_windows(
    shape: tuple[int, ...], window_bytes: int, taps: int, overlap: int
) -> list[tuple[slice, slice]]:
    """Cut an output (N, OH, OW, O) into blocks whose copied windows fit in the cache of a core.

    Args:
        shape: shape of the output.
        window_bytes: size of what is copied for an output pixel.
        taps: multiply-adds of an output pixel.
        overlap: rows that neighbouring blocks of an image both copy.
    """
    images, height, width = shape[:3]
    pixels = images * height * width
    count = -(-pixels * window_bytes // _BLOCK_BYTES)
    if pixels * taps >= _MIN_SHARED:
        count = -(-count // HELPERS.processors) * HELPERS.processors
    most = min(pixels // _MIN_PIXELS, images * max(1, height // max(1, overlap)))
    return _blocks(images, height, max(1, min(count, most)))


def _blocks(images: int, height: int, count: int) -> list[tuple[slice, slice]]:
    """Cut images into about `count` blocks: of images, or else of the rows of an image."""
    blocks = min(count, images)
    step, rows = -(-images // blocks), -(-height * blocks // count)
    return [
        (slice(image, image + step), slice(row, min(row + rows, height)))
        for image in range(0, images, step)
        for row in range(0, height, rows)
    ]


def _share(pieces: list[Callable[[], object]]) -> None:
    """Run pieces of work, on all cores if there are several."""
    if len(pieces) > 1:
        HELPERS.run(pieces)
    else:
        pieces[0]()


def conv3d(x: Array, kernel: Array, planes: Axis, rows: Axis, cols: Axis) -> Array:
    """Convolve `x` (N, D, H, W, C) with `kernel` (KD, KH, KW, C / groups, O).

    The result is a sum of two-dimensional convolutions, one for each plane of the kernel.
    """
    images, width = x.shape[0], kernel.shape[4]
    shape = (images, planes.out, rows.out, cols.out, width)
    check_size(shape, itemsize=x.itemsize)
    out = np.zeros(shape, x.dtype)
    if out.size == 0:
        return out
    for tap in cancellable(range(planes.kernel), 1):
        windows, inputs = planes.overlap(tap)
        part = x[:, inputs]
        flat = part.reshape(-1, *x.shape[2:])
        result = conv2d(flat, kernel[tap], rows, cols)
        out[:, windows] += result.reshape(images, part.shape[1], *result.shape[1:])
    return out


def depthwise(x: Array, kernel: Array, rows: Axis, cols: Axis) -> Array:
    """Convolve every channel of `x` (N, H, W, C) with its own `kernel` (KH, KW, C, M).

    Returns (N, OH, OW, C * M); output channel c * M + m comes from input channel c.
    """
    multiplier = kernel.shape[3]
    weights = kernel.reshape(rows.kernel, cols.kernel, -1)
    channels = weights.shape[2]
    check_size((x.shape[0], rows.out, cols.out, channels), itemsize=x.itemsize)
    out: Array = np.empty((x.shape[0], rows.out, cols.out, channels), x.dtype)
    if out.size == 0 or weights.size == 0:
        out.fill(0)
        return out
    if multiplier != 1:
        check_size((*x.shape[:3], channels), "the repeated input", itemsize=x.itemsize)
        x = np.repeat(x, multiplier, axis=3)
    if cols.stride > 1 and channels >= _MIN_LOOP:
        parts, flat = [(patches(pad_image(x, rows, cols), rows, cols), weights)], out
    else:
        parts = [_rows_of_windows(x, weights, rows, cols, taps) for taps in _groups_of_taps(cols)]
        flat = out.reshape(x.shape[0], rows.out, 1, -1)
    cuts = _depthwise_cuts(out.shape, rows.kernel * cols.kernel)
    _share([partial(_sum_of_taps, parts, cut, flat) for cut in cuts])
    return out


def _sum_of_taps(parts: list[tuple[Array, Array]], cut: tuple[slice, slice], out: Array) -> None:
    """Write a block of images and rows of a depthwise convolution."""
    (windows, weights), *rest = parts
    np.einsum(_SUM_OF_TAPS, windows[cut], weights, out=out[cut])
    for windows, weights in rest:
        out[cut] += np.einsum(_SUM_OF_TAPS, windows[cut], weights)


def _groups_of_taps(cols: Axis) -> list[range]:
    """Group the taps along a row, so that those of a group read the same columns, shifted.

    They are every `stride`-th column of the image, since windows are `stride` columns apart.
    """
    step = cols.stride // gcd(cols.stride, cols.dilation)
    return [range(first, cols.kernel, step) for first in range(min(step, cols.kernel))]


def _rows_of_windows(
    x: Array, weights: Array, rows: Axis, cols: Axis, taps: range
) -> tuple[Array, Array]:
    """Return the windows (N, OH, 1, KH, taps, OW * C) of a group of taps, and their weights.

    A row of windows reads contiguous memory, for one long inner loop, so the weights (KH, taps,
    OW * C) are repeated.
    """
    x = _columns_of(x, rows, cols, taps)
    steps = x.strides
    width = cols.out * x.shape[3]
    windows: Array = np.ndarray(  # `as_strided` takes four times as long
        (x.shape[0], rows.out, 1, rows.kernel, len(taps), width),
        x.dtype,
        x,
        strides=(
            steps[0],
            steps[1] * rows.stride,
            0,
            steps[1] * rows.dilation,
            steps[2] * (taps.step * cols.dilation // cols.stride),
            steps[3],
        ),
    )
    return windows, side_by_side(weights[:, taps.start :: taps.step], cols.out)


def _columns_of(x: Array, rows: Axis, cols: Axis, taps: range) -> Array:
    """Return the columns of the padded image that a group of taps reads, side by side."""
    if cols.stride == 1:
        return np.ascontiguousarray(pad_image(x, rows, cols))
    first, last = (tap * cols.dilation for tap in (taps[0], taps[-1]))
    width = cols.out + (last - first) // cols.stride
    shape = (x.shape[0], rows.padded, width, x.shape[3])
    check_size(shape, "the columns of the padded input", itemsize=x.itemsize)
    padded = np.zeros(shape, x.dtype)
    skipped = max(0, -((first - cols.before) // cols.stride))
    columns = x[:, :, first + skipped * cols.stride - cols.before :: cols.stride]
    columns = columns[:, :, : width - skipped]
    inside = padded[:, rows.before : rows.before + rows.size, skipped:]
    inside[:, :, : columns.shape[2]] = columns
    return padded


def _depthwise_cuts(shape: tuple[int, ...], taps: int) -> list[tuple[slice, slice]]:
    """Cut an output (N, OH, OW, C) into blocks of images and rows; small ones stay whole."""
    images, height = shape[:2]
    work = taps * prod(shape)
    count = (
        max(2 * HELPERS.processors, work // _MAX_DEPTHWISE_WORK)
        if work > _MIN_SHARED_DEPTHWISE
        else 1
    )
    return _blocks(images, height, count)
