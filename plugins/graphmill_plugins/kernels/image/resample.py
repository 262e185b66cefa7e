"""Resize with more than two neighbours: bicubic, area, and ScaleAndTranslate.

Semantics: tensorflow/core/kernels/image/resize_bicubic_op.cc, resize_area_op.cc,
scale_and_translate_op.cc. Sizes, scales and translations are static, so NumPy computes the weights
of each axis as a matrix (output, input). The image is multiplied by both matrices.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._matmul import matmul_of, product, stacked_product
from graphmill_plugins.kernels._support import check_size, shape_text
from graphmill_plugins.kernels.image import _sampling_kernels
from graphmill_plugins.kernels.image._taps import all_used, matrix_taps, tapped, transposed
from graphmill_plugins.kernels.image.resize import (
    check_centers,
    check_gradient,
    check_images,
    check_pixels,
    output_size,
    positions,
    resize_scale,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from graphmill.spi import ArrayNamespace, Value

_F = np.float32
_TABLE = 1024  # steps between two pixels in the table of cubic weights
_SMALLEST_SUM = 1000 * np.finfo(np.float32).tiny
_MAX_CACHED_ELEMENTS = 1 << 18  # elements of a matrix
_MAX_TAPS = 8  # inputs per output up to which gathers beat a product; fewer for NumPy (no fusion)
_MAX_NUMPY_TAPS = 2
_MAX_GATHERED_CHANNELS = 16
_BLOCK = 32  # outputs that NumPy computes at once, from the inputs near them
_MIN_DIVIDED_ELEMENTS = 1 << 14  # elements of a matrix; smaller ones are multiplied at once
_MIN_INPUTS_PER_TAP = 8  # gather only if the axis has at least so many inputs per tap
_FLOATS = (dtypes.float32, dtypes.float64)


def _cubic_table(sharpness: float) -> Any:
    """Return the weights of the near and the far pixel at each step from a pixel, in float32."""
    x = np.arange(_TABLE + 1, dtype=np.float32) * _F(1 / _TABLE)
    a = _F(sharpness)
    near = ((a + _F(2)) * x - (a + _F(3))) * x * x + _F(1)
    x = x + _F(1)
    return near, ((a * x - _F(5) * a) * x + _F(8) * a) * x - _F(4) * a


def cubic_taps(size: int, new_size: int, align_corners: bool, half: bool) -> tuple[Any, Any]:
    """Return the four inputs of each output of a cubic interpolation, and their weights."""
    position = positions(size, new_size, align_corners, 0.5 if half else 0.0)
    if half:
        position = position - _F(0.5)
    floor = np.floor(position)
    step = np.rint((position - floor) * _F(_TABLE)).astype(np.intp)
    near, far = _cubic_table(-0.5 if half else -0.75)
    weights = np.stack([far[step], near[step], near[_TABLE - step], far[_TABLE - step]], axis=1)
    inputs = floor.astype(np.intp)[:, None] + np.arange(-1, 3)
    bounded = np.clip(inputs, 0, size - 1)
    if half:  # pixels outside get no weight; the weights of the others are normalized
        weights = np.where(inputs == bounded, weights, _F(0))
        total = weights.sum(axis=1, keepdims=True, dtype=np.float32)
        weights = np.where(np.abs(total) >= _SMALLEST_SUM, weights / total, weights)
    return bounded, weights


def cubic_weights(size: int, new_size: int, align_corners: bool, half: bool) -> Any:
    """Return the matrix (output, size) that resizes an axis by cubic interpolation."""
    inputs, weights = cubic_taps(size, new_size, align_corners, half)
    matrix = np.zeros((new_size, size), np.float32)
    np.add.at(matrix, (np.arange(new_size)[:, None], inputs), weights)
    return matrix


def area_weights(size: int, new_size: int, align_corners: bool) -> Any:
    """Return the matrix (output, size) of the fraction of each input pixel in each output pixel."""
    scale = resize_scale(size, new_size, align_corners)
    if scale == 0:  # the axis has one pixel, which every output pixel copies
        return np.eye(1, size, dtype=np.float32).repeat(new_size, axis=0)
    start = np.arange(new_size, dtype=np.float32) * scale
    stop = np.arange(1, new_size + 1, dtype=np.float32) * scale
    span = int(np.max(np.ceil(stop) - np.floor(start)))
    start, stop = start[:, None], stop[:, None]
    pixels = np.floor(start) + np.arange(span, dtype=np.float32)
    first = np.where(pixels + 1 > stop, scale, pixels + 1 - start)
    other = np.where(pixels + 1 > stop, stop - pixels, _F(1))
    shares = np.where(pixels < start, first, other)
    shares = np.where(pixels < np.ceil(stop), shares, _F(0))
    matrix = np.zeros((new_size, size), np.float32)
    inputs = np.clip(pixels.astype(np.intp), 0, size - 1)
    np.add.at(matrix, (np.arange(new_size)[:, None], inputs), shares)
    return matrix / scale


def _weights(make: Callable[..., Any], size: int, new_size: int, *alignment: bool) -> Any:
    """Return the matrix that `make` computes; small ones are cached for the following steps."""
    is_small = size * new_size <= _MAX_CACHED_ELEMENTS
    check_size((new_size, size), "the matrix of weights", itemsize=4)
    return (
        _cached(make, size, new_size, *alignment) if is_small else make(size, new_size, *alignment)
    )


@lru_cache(maxsize=32)
def _cached(make: Callable[..., Any], *arguments: int) -> Any:
    matrix = make(*arguments)
    matrix.setflags(write=False)
    return matrix


def resampled(
    xp: ArrayNamespace, images: Value, down: Any, across: Any, *, is_checked: bool = False
) -> Value:
    """Return images, in float32, multiplied by `down` along rows and `across` along columns.

    Both are NumPy matrices (output, input). If each output depends on few inputs, these are
    gathered. Otherwise the result is a matrix product, of whole planes if there are few channels.
    NumPy sums the inputs of nonzero weight alone if a pixel is not finite, so that it does not
    change other outputs; programs check that all are finite, and callers may (`is_checked`).
    """
    matmul, images = matmul_of(xp), images.astype(np.float32)
    if xp is np and not is_checked and not is_finite(images):
        return tapped(images, matrix_taps(down), matrix_taps(across))
    limit = _MAX_NUMPY_TAPS if xp is np else _MAX_TAPS
    of_rows, of_columns = _taps(down, limit), _taps(across, limit)
    if of_rows is None and of_columns is None and images.shape[3] <= _MAX_GATHERED_CHANNELS:
        if xp is np:
            return _rows_first(images, down, across)
        planes = xp.moveaxis(images, -1, 1)
        products = matmul(matmul(down, planes), xp.asarray(across.T))
        return xp.moveaxis(products, 1, -1)
    if of_rows is not None:
        images = _gathered_sums(xp, images, *of_rows, axis=1)
    else:
        batch, height, width, channels = images.shape
        rows = matmul(down, images.reshape(batch, height, width * channels))
        images = rows.reshape(batch, len(down), width, channels)
    if of_columns is not None:
        return _gathered_sums(xp, images, *of_columns, axis=2)
    return matmul(across, images)


def _rows_first(images: Value, down: Any, across: Any) -> Value:
    """Return the products on NumPy, of blocks of outputs with the inputs that have a weight."""
    batch, height, width, channels = images.shape
    pixels = images.reshape(batch, height, width * channels)
    rows = np.empty((batch, len(down), width * channels), np.float32)
    for outputs, inputs in _blocks(down):
        rows[:, outputs] = stacked_product(down[outputs, inputs], pixels[:, inputs])
    lines = rows.reshape(batch * len(down), width, channels).transpose(0, 2, 1).reshape(-1, width)
    products = np.empty((len(lines), len(across)), np.float32)
    for outputs, inputs in _blocks(across):
        products[:, outputs] = product(lines[:, inputs], across[outputs, inputs].T)
    return products.reshape(batch, len(down), channels, len(across)).transpose(0, 1, 3, 2)


def _blocks(matrix: Any) -> Iterator[tuple[slice, slice]]:
    """Yield blocks of outputs, and the range of inputs on which each block depends."""
    step = _BLOCK if matrix.size > _MIN_DIVIDED_ELEMENTS else len(matrix)
    for start in range(0, len(matrix), max(step, 1)):
        outputs = slice(start, start + step)
        used = np.flatnonzero(matrix[outputs].any(axis=0))
        yield outputs, slice(int(used[0]), int(used[-1]) + 1) if used.size else slice(0, 0)


def _taps(matrix: Any, limit: int) -> tuple[Any, Any] | None:
    """Return the input indices and weights (output, taps); None for more than `limit` taps."""
    outputs, inputs = np.nonzero(matrix)
    counts = np.bincount(outputs, minlength=len(matrix))
    longest = int(counts.max(initial=0))
    if not 0 < longest <= limit or longest * _MIN_INPUTS_PER_TAP > matrix.shape[1]:
        return None
    tap = np.arange(len(outputs)) - np.repeat(np.cumsum(counts) - counts, counts)
    # Unused taps read the output's first input with weight 0, so that an infinite pixel does not
    # affect the outputs of other pixels.
    indices = np.tile(np.argmax(matrix != 0, axis=1)[:, None], (1, longest))
    weights = np.zeros((len(matrix), longest), np.float32)
    indices[outputs, tap], weights[outputs, tap] = inputs, matrix[outputs, inputs]
    return indices, weights


def _gathered_sums(
    xp: ArrayNamespace, images: Value, indices: Any, weights: Any, axis: int
) -> Value:
    """Return the weighted sums of a few gathered inputs along an axis."""
    shape = [-1 if each == axis else 1 for each in range(4)]
    total: Any = 0
    for index, weight in zip(indices.T, weights.T, strict=True):
        total = total + xp.take(images, index, axis=axis) * weight.reshape(shape)
    return total


def is_finite(images: Value) -> bool:
    """Return whether no pixel is NaN or infinite in float32, the type of the results."""
    return images.dtype.kind in "iu" or bool(
        np.isfinite(images.astype(np.float32, copy=False)).all()
    )


@kernel("ResizeBicubic", types={"T": dtypes.REAL}, static=("size",), expensive=True)
def resize_bicubic(
    xp: ArrayNamespace,
    images: Value,
    size: Value,
    align_corners: bool,
    half_pixel_centers: bool,
) -> Value:
    """Return the images resized by cubic interpolation, as float32."""
    check_images(images)
    check_centers(align_corners, half_pixel_centers)
    height, width = output_size(size, images)
    alignment = (align_corners, half_pixel_centers)
    if xp is np and not is_finite(images):  # a weight of 0 makes NaN of an infinite pixel
        rows, columns = (
            all_used(*cubic_taps(one, new, *alignment))
            for one, new in zip(images.shape[1:3], (height, width), strict=True)
        )
        return tapped(images.astype(np.float32), rows, columns)
    down = _weights(cubic_weights, images.shape[1], height, *alignment)
    across = _weights(cubic_weights, images.shape[2], width, *alignment)
    return resampled(xp, images, down, across, is_checked=True)


@kernel("ResizeBicubicGrad", types={"T": _FLOATS}, expensive=True)
def resize_bicubic_grad(
    xp: ArrayNamespace,
    grads: Value,
    original_image: Value,
    align_corners: bool,
    half_pixel_centers: bool,
) -> Value:
    """Return the gradient of the images of a ResizeBicubic."""
    check_centers(align_corners, half_pixel_centers)
    check_gradient(grads, original_image)
    check_pixels(grads, original_image)
    if not grads.size:
        return xp.zeros(original_image.shape, original_image.dtype)
    sizes = list(zip(original_image.shape[1:3], grads.shape[1:3], strict=True))
    alignment = (align_corners, half_pixel_centers)
    if xp is np and not is_finite(grads):  # a weight of 0 makes NaN of an infinite gradient
        taps = (transposed(*cubic_taps(one, new, *alignment), one) for one, new in sizes)
        gradient = tapped(grads.astype(np.float32), *taps)
    else:
        down, across = (_weights(cubic_weights, one, new, *alignment) for one, new in sizes)
        gradient = resampled(xp, grads, down.T, across.T, is_checked=True)
    return gradient.astype(original_image.dtype)


@kernel("ResizeArea", types={"T": dtypes.REAL}, static=("size",), expensive=True)
def resize_area(xp: ArrayNamespace, images: Value, size: Value, align_corners: bool) -> Value:
    """Return the images resized, each pixel the mean of an area, as float32."""
    check_images(images)
    height, width = output_size(size, images)
    down = _weights(area_weights, images.shape[1], height, align_corners)
    across = _weights(area_weights, images.shape[2], width, align_corners)
    return resampled(xp, images, down, across)


def _axes(
    sizes: tuple[int, int],
    new_sizes: tuple[int, int],
    scale: Value,
    translation: Value,
    antialias: bool,
) -> list[_sampling_kernels.Axis]:
    """Return the scale and translation of both axes."""
    each = zip(sizes, new_sizes, scale, translation, strict=True)
    return [_sampling_kernels.Axis(*numbers, antialias) for numbers in each]


def _check_scale(scale: Value, translation: Value) -> None:
    """Check the scale and the translation.

    Raises:
        InvalidArgumentError: they do not have two elements each, or a scale is not positive.
    """
    if scale.shape != (2,) or translation.shape != (2,):
        raise InvalidArgumentError(
            "scale and translation must be vectors of two elements, got "
            f"{shape_text(scale.shape)} and {shape_text(translation.shape)}"
        )
    if not (scale > 0).all():
        raise InvalidArgumentError(f"Scale must be greater than zero, got {scale.tolist()}")


@kernel(
    "ScaleAndTranslate",
    types={"T": dtypes.REAL},
    static=("size", "scale", "translation"),
    expensive=True,
)
def scale_and_translate(
    xp: ArrayNamespace,
    images: Value,
    size: Value,
    scale: Value,
    translation: Value,
    kernel_type: str,
    antialias: bool,
) -> Value:
    """Return the images scaled, translated and cropped, as float32."""
    check_images(images)
    new_sizes = output_size(size, images)
    _check_scale(scale, translation)
    sizes = (images.shape[1], images.shape[2])
    axes = _axes(sizes, new_sizes, scale, translation, antialias)
    sampling = _sampling_kernels.named(kernel_type)
    if xp is np and not is_finite(images):  # a weight of 0 makes NaN of an infinite pixel
        return tapped(
            images.astype(np.float32), *(_sampling_kernels.taps(sampling, one) for one in axes)
        )
    matrices = (_sampling_kernels.weights(sampling, one) for one in axes)
    return resampled(xp, images, *matrices, is_checked=True)


@kernel(
    "ScaleAndTranslateGrad",
    types={"T": (dtypes.float32,)},
    static=("scale", "translation"),
    expensive=True,
)
def scale_and_translate_grad(
    xp: ArrayNamespace,
    grads: Value,
    original_image: Value,
    scale: Value,
    translation: Value,
    kernel_type: str,
    antialias: bool,
) -> Value:
    """Return the gradient of the images of a ScaleAndTranslate."""
    check_gradient(grads, original_image)
    _check_scale(scale, translation)
    if not grads.size or not original_image.size:
        return xp.zeros(original_image.shape, original_image.dtype)
    sizes = (original_image.shape[1], original_image.shape[2])
    new_sizes = (grads.shape[1], grads.shape[2])
    axes = _axes(sizes, new_sizes, scale, translation, antialias)
    sampling = _sampling_kernels.named(kernel_type)
    return resampled(xp, grads, *(_sampling_kernels.weights(sampling, one).T for one in axes))
