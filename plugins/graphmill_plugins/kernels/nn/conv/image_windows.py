"""Pad channels-last NumPy images, and cut their windows into blocks."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from graphmill_plugins.kernels._support import check_size

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from graphmill_plugins.kernels.nn.window import Axis

    Array = NDArray[Any]

BLOCK_BYTES = 4 << 20
"""Size of a block of copied taps: about the size of the L2 caches of two cores."""


def pad_image(x: Array, *axes: Axis, value: float = 0) -> Array:
    """Pad `x` (batch, spatial axes …, channels) as `axes` require.

    Returns `x` itself if there is no padding.
    """
    if not any(axis.before or axis.after for axis in axes):
        return x
    shape = (x.shape[0], *(axis.padded for axis in axes), x.shape[-1])
    check_size(shape, "the padded input", itemsize=x.dtype.itemsize)
    padded = np.zeros(shape, x.dtype) if value == 0 else np.full(shape, value, x.dtype)
    inner = tuple(slice(axis.before, axis.before + axis.size) for axis in axes)
    padded[(slice(None), *inner)] = x
    return padded


def patches(x: Array, rows: Axis, cols: Axis) -> Array:
    """Return the read-only view (N, OH, OW, KH, KW, C) of all windows of a padded image."""
    steps = x.strides
    return as_strided(
        x,
        (x.shape[0], rows.out, cols.out, rows.kernel, cols.kernel, x.shape[3]),
        (
            steps[0],
            steps[1] * rows.stride,
            steps[2] * cols.stride,
            steps[1] * rows.dilation,
            steps[2] * cols.dilation,
            steps[3],
        ),
        writeable=False,
    )


def patch_blocks(
    shape: tuple[int, ...], itemsize: int, block_bytes: int
) -> list[tuple[slice, slice]]:
    """Cut windows of `shape` (N, OH, OW, KH, KW, C) into blocks of images and rows.

    A block holds whole images, or rows of a single image. It has at most `block_bytes`, but at
    least one row.
    """
    images, height = shape[:2]
    row_bytes = prod(shape[2:]) * itemsize
    rows = max(1, min(height, block_bytes // row_bytes))
    images_at_once = (
        max(1, min(images, block_bytes // (row_bytes * height))) if rows == height else 1
    )
    return [
        (slice(image, min(image + images_at_once, images)), slice(row, min(row + rows, height)))
        for image in range(0, images, images_at_once)
        for row in range(0, height, rows)
    ]
