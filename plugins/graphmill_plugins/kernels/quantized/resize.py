"""QuantizedResizeBilinear: resize images of quantized values in fixed point.

Semantics: tensorflow/core/kernels/quantized_resize_bilinear_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.spi import kernel
from graphmill_plugins.kernels._quantize import sole
from graphmill_plugins.kernels._support import check_size
from graphmill_plugins.kernels.image.resize import check_images, linear_neighbors, output_size

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value
    from graphmill_plugins.kernels._quantize import Ranged

_FRACTION_BITS = {1: 7, 4: 30}
"""The fractional bits of weights, by the bytes of a value."""


_PIXEL_SIZE = 48


def _divided(xp: ArrayNamespace, x: Value, bits: int) -> Value:
    """Divide integers by a power of 2, rounding towards zero."""
    return xp.sign(x) * (xp.abs(x) >> bits)


def _blended(
    xp: ArrayNamespace,
    images: Value,
    row_positions: tuple[Any, Any, Any],
    across: tuple[Any, Any, Any],
) -> Value:
    """Return the pixels between four neighbours, computed in integers."""
    top, bottom, row_weight = row_positions
    left, right, column_weight = across
    bits = _FRACTION_BITS[images.dtype.itemsize]
    row_weight, column_weight = (
        (weight * np.float32(1 << bits)).astype(np.int64) for weight in (row_weight, column_weight)
    )
    wide = images.astype(np.float32).astype(np.int64)  # TensorFlow's conversion of qint32 rounds
    rows = []
    for positions in (top, bottom):
        row = xp.take(wide, positions, axis=1)
        first, second = xp.take(row, left, axis=2), xp.take(row, right, axis=2)
        rows.append((first << bits) + (second - first) * column_weight[None, None, :, None])
    blended = rows[0] + _divided(xp, rows[1] - rows[0], bits) * row_weight[None, :, None, None]
    return _divided(xp, blended + (1 << (bits - 1)), bits).astype(images.dtype)


def _blended_floats(
    xp: ArrayNamespace,
    images: Value,
    row_positions: tuple[Any, Any, Any],
    across: tuple[Any, Any, Any],
) -> Value:
    """Return the pixels between four neighbours, computed in float32."""
    top, bottom, row_weight = row_positions
    left, right, column_weight = across
    rows = []
    for positions in (top, bottom):
        row = xp.take(images, positions, axis=1)
        first, second = xp.take(row, left, axis=2), xp.take(row, right, axis=2)
        rows.append(first + (second - first) * column_weight[None, None, :, None])
    return rows[0] + (rows[1] - rows[0]) * row_weight[None, :, None, None]


@kernel(
    "QuantizedResizeBilinear",
    types={"T": (dtypes.quint8, dtypes.qint32, dtypes.float32)},
    static=("size",),
    expensive=True,
)
def quantized_resize_bilinear(
    xp: ArrayNamespace,
    images: Value,
    size: Value,
    min_: Value,
    max_: Value,
    align_corners: bool,
    half_pixel_centers: bool,
) -> Ranged:
    """Return the images at another size; the range does not change."""
    low, high = sole("min", min_), sole("max", max_)
    check_images(images)
    height, width = output_size(size, images)
    if images.shape[1:3] == (height, width):
        return images, low, high
    # Four neighbours of each pixel, and sums of them, in a wider type.
    check_size((images.shape[0], height, width, images.shape[3]), itemsize=_PIXEL_SIZE)
    rows = linear_neighbors(images.shape[1], height, align_corners, half_pixel_centers)
    columns = linear_neighbors(images.shape[2], width, align_corners, half_pixel_centers)
    blend = _blended_floats if images.dtype.kind == "f" else _blended
    return blend(xp, images, rows, columns), low, high
