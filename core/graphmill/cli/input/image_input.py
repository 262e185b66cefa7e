"""Fit an image to an input of a model: channels, size, scale and batch dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphmill.cli.input.image_files import read_image
from graphmill.cli.input.input_spec import show_shape
from graphmill.errors import InvalidArgumentError

if TYPE_CHECKING:
    from graphmill.cli.input.input_args import Source
    from graphmill.cli.input.input_spec import InputSpec

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def image_array(source: Source, data: bytes, spec: InputSpec, *, resize: bool = False) -> Array:
    """Return the image in `data` as an array for the model's input.

    The image is converted to the channels of the input. For an input of floats the pixels become
    floats in 0..1 (`tf.image.convert_image_dtype`); for integers they remain 0..255. A batch
    dimension is added if the input has one. A channel dimension of size 1 is removed if the input
    has none.

    Raises:
        InvalidArgumentError: the size (with `resize` off) or the rank does not fit.
    """
    height, width, channels = _layout(spec)
    size = (height, width) if resize and height > 0 and width > 0 else None
    image = read_image(data, source.text, channels=channels if channels > 0 else None, size=size)
    if height not in (-1, image.shape[0]) or width not in (-1, image.shape[1]):
        raise _wrong_size(image, (height, width), source, spec)
    array = _scaled(image, spec)
    for candidate in (array[np.newaxis], array, array[np.newaxis, :, :, 0], array[:, :, 0]):
        if spec.takes(candidate.shape):
            return candidate
    raise InvalidArgumentError(
        f"{source} is an image of shape {show_shape(image.shape)} (height, width, channels), "
        f"which {spec} does not accept"
    )


def _layout(spec: InputSpec) -> tuple[int, int, int]:
    """Return the height, width and channels of an image input, -1 where unknown."""
    match spec.shape:
        case (_, height, width, channels):
            return height, width, channels
        case (height, width, (1 | 2 | 3 | 4) as channels):
            return height, width, channels
        case (_, height, width) | (height, width):
            return height, width, 1
    return -1, -1, -1


def _wrong_size(
    image: Array, size: tuple[int, int], source: Source, spec: InputSpec
) -> InvalidArgumentError:
    height, width = ("any" if side < 0 else side for side in size)
    error = InvalidArgumentError(
        f"{source} is {image.shape[1]} x {image.shape[0]} pixels (width x height), but input "
        f"{spec.name!r} accepts images of {width} x {height}"
    )
    error.add_note("try: --resize, which scales images to the size of the input")
    return error


def _scaled(image: Array, spec: InputSpec) -> Array:
    """Return the pixels in the dtype of the input; floats are in 0..1.

    Semantics: tensorflow/python/ops/image_ops_impl.py (`convert_image_dtype`, for floats).
    """
    if spec.dtype is None:
        return image
    target = spec.dtype.base_dtype
    pixels = image.astype(target.as_numpy_dtype)
    if not target.is_floating:
        return pixels
    scale = 1.0 / np.iinfo(image.dtype).max
    return np.asarray(pixels * np.asarray(scale, target.as_numpy_dtype))
