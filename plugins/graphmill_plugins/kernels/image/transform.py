"""ImageProjectiveTransformV2 and V3: apply projective transforms to images.

Semantics: tensorflow/core/kernels/image/image_ops.h. All computations are in float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill.spi.kernels import check_cancelled
from graphmill_plugins.kernels._support import check_size, shape_text

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value

_TYPES = {
    "dtype": (*dtypes.FLOATING, dtypes.uint8, dtypes.int32, dtypes.int64),
}
_F = np.float32


def _reflected(xp: ArrayNamespace, position: Value, size: int) -> Value:
    """Reflect positions outside of the image: [dcba|abcd|dcba]."""
    if size <= 1:
        return xp.zeros_like(position)
    period = 2 * size
    low = xp.where(
        position < period, _F(period) * xp.trunc(-position / _F(period)) + position, position
    )
    low = xp.where(low < -size, low + _F(period), -low - _F(1))
    high = position - _F(period) * xp.trunc(position / _F(period))
    high = xp.where(high >= size, _F(period) - high - _F(1), high)
    return xp.where(position < 0, low, xp.where(position > size - 1, high, position))


def _wrapped(xp: ArrayNamespace, position: Value, size: int) -> Value:
    """Wrap positions outside of the image: [abcd|abcd|abcd]."""
    if size <= 1:
        return xp.where((position < 0) | (position > size - 1), _F(0), position)
    inner = _F(size - 1)
    low = position + _F(size) * (xp.trunc(-position / inner) + _F(1))
    high = position - _F(size) * xp.trunc(position / inner)
    return xp.where(position < 0, low, xp.where(position > size - 1, high, position))


def _mapped(xp: ArrayNamespace, position: Value, size: int, mode: str) -> Value:
    check_cancelled()
    if mode == "CONSTANT":
        return position
    if mode == "REFLECT":
        position = _reflected(xp, position, size)
    elif mode == "WRAP":
        position = _wrapped(xp, position, size)
    return xp.clip(position, _F(0), _F(size - 1))


def _input_positions(
    xp: ArrayNamespace, transforms: Value, height: int, width: int
) -> tuple[Value, Value, Value]:
    """Return input rows and columns (maps, height, width), and a mask of nonzero depths."""
    t = [transforms[:, index, None, None] for index in range(8)]
    x = np.arange(width, dtype=np.float32)[None, None, :]
    y = np.arange(height, dtype=np.float32)[None, :, None]
    depth = t[6] * x + t[7] * y + _F(1)
    exists = depth != 0
    safe = xp.where(exists, depth, _F(1))
    column = (t[0] * x + t[1] * y + t[2]) / safe
    row = (t[3] * x + t[4] * y + t[5]) / safe
    return row, column, exists


def _check(images: Value, transforms: Value, output_shape: Value) -> tuple[int, int]:
    """Return the height and width of the result.

    Raises:
        InvalidArgumentError: shapes do not match, or a size is not positive.
    """
    if images.ndim != 4:
        raise InvalidArgumentError(f"images must have rank 4, got {shape_text(images.shape)}")
    maps = transforms.shape[0] if transforms.ndim == 2 else -1
    if transforms.shape[1:] != (8,) or maps not in (1, images.shape[0]):
        raise InvalidArgumentError(
            f"transforms must have shape [1 or {images.shape[0]},8], got "
            f"{shape_text(transforms.shape)}"
        )
    if output_shape.shape != (2,):
        raise InvalidArgumentError(
            f"output shape must be 1-dimensional with two elements, got "
            f"{shape_text(output_shape.shape)}"
        )
    height, width = output_shape.tolist()
    if height <= 0 or width <= 0:
        raise InvalidArgumentError(f"output dimensions must be positive, got {height} x {width}")
    # Read pixels and the result, besides positions and masks.
    check_size((len(images), height, width, images.shape[3] + 4), itemsize=8)
    return height, width


def _transformed(
    xp: ArrayNamespace,
    images: Value,
    transforms: Value,
    output_shape: Value,
    fill: Value,
    interpolation: str,
    mode: str,
) -> Value:
    height, width = _check(images, transforms, output_shape)
    rows, columns = images.shape[1:3]
    row, column, exists = _input_positions(xp, transforms, height, width)
    row, column = _mapped(xp, row, rows, mode), _mapped(xp, column, columns, mode)
    fill = fill.astype(images.dtype)
    if not rows or not columns:
        return xp.full((len(images), height, width, images.shape[3]), fill)
    numbers = np.arange(images.shape[0])[:, None, None]

    def read(y: Value, x: Value) -> Value:
        check_cancelled()
        is_inside = (y >= 0) & (y <= rows - 1) & (x >= 0) & (x <= columns - 1)
        y, x = (xp.where(is_inside, position, _F(0)).astype(np.int32) for position in (y, x))
        pixels = images[numbers, y, x]
        return xp.where(is_inside[..., None], pixels, fill)

    if interpolation == "NEAREST":
        values = read(_round(xp, row), _round(xp, column))
    else:
        values = _bilinear(read, xp.floor(row), xp.floor(column), row, column)
        values = values.astype(images.dtype)
    return xp.where(exists[..., None], values, fill)


def _round(xp: ArrayNamespace, position: Value) -> Value:
    """Round halves away from zero, as C++ does; 0.49999997 becomes 0."""
    size = xp.abs(position)
    floor = xp.floor(size)
    return xp.sign(position) * (floor + (size - floor >= _F(0.5)).astype(np.float32))


def _bilinear(read: Any, top: Value, left: Value, row: Value, column: Value) -> Value:
    bottom, right = top + _F(1), left + _F(1)
    before, after = (right - column)[..., None], (column - left)[..., None]
    rows = [
        before * read(row_position, left).astype(np.float32)
        + after * read(row_position, right).astype(np.float32)
        for row_position in (top, bottom)
    ]
    return (bottom - row)[..., None] * rows[0] + (row - top)[..., None] * rows[1]


def _check_modes(interpolation: str, fill_mode: str) -> tuple[str, str]:
    interpolation, mode = interpolation.upper(), fill_mode.upper()
    if interpolation not in ("NEAREST", "BILINEAR"):
        raise InvalidArgumentError(
            f"Invalid interpolation {interpolation}. Supported types: NEAREST, BILINEAR"
        )
    if mode not in ("CONSTANT", "REFLECT", "WRAP", "NEAREST"):
        raise InvalidArgumentError(
            f"Invalid mode {mode}. Supported types: CONSTANT, REFLECT, WRAP, NEAREST"
        )
    return interpolation, mode


@kernel("ImageProjectiveTransformV2", types=_TYPES, static=("output_shape",), expensive=True)
def image_projective_transform_v2(
    xp: ArrayNamespace,
    images: Value,
    transforms: Value,
    output_shape: Value,
    interpolation: str,
    fill_mode: str,
) -> Value:
    """Return the transformed images; pixels outside are zero, or filled by `fill_mode`."""
    modes = _check_modes(interpolation, fill_mode)
    return _transformed(xp, images, transforms, output_shape, _F(0), *modes)


@kernel("ImageProjectiveTransformV3", types=_TYPES, static=("output_shape",), expensive=True)
def image_projective_transform_v3(
    xp: ArrayNamespace,
    images: Value,
    transforms: Value,
    output_shape: Value,
    fill_value: Value,
    interpolation: str,
    fill_mode: str,
) -> Value:
    """Return the transformed images; pixels outside are `fill_value`, or filled by `fill_mode`."""
    modes = _check_modes(interpolation, fill_mode)
    if np.ndim(fill_value):
        raise InvalidArgumentError(
            f"fill_value must be a scalar, got shape {shape_text(np.shape(fill_value))}"
        )
    return _transformed(xp, images, transforms, output_shape, fill_value, *modes)
