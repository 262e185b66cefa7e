"""Fit an image to an input of a model: channels, size, scale and batch dimension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from graphmill.errors import InvalidArgumentError, OpError
from graphmill.inputs.image_files import read_image
from graphmill.inputs.input_spec import show_shape
from graphmill.inputs.small_pngs import decode_together

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.inputs.input_spec import InputSpec
    from graphmill.inputs.source import Source

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


PIXEL_RANGES: Final = {"0..1": (0.0, 1.0), "0..255": (0.0, 255.0), "-1..1": (-1.0, 1.0)}
"""The ranges to which pixels can be scaled: the values of black and white."""
_DEFAULT_RANGE: Final = "0..1"


@dataclass(frozen=True, slots=True)
class ImageOptions:
    """The options for the conversion of images to arrays.

    Attributes:
        resize: whether they are scaled to the size of the input.
        pixels: a name of `PIXEL_RANGES`; "" for 0..1 if the input has floats, and for the values of
            the file if it has integers.
        on_note: is called with a line that says how the pixels of an image were scaled.
    """

    resize: bool = False
    pixels: str = ""
    on_note: Callable[[str], None] | None = None


def image_array(
    source: Source, data: bytes, spec: InputSpec, options: ImageOptions | None = None
) -> Array:
    """Return the image in `data` as an array for the model's input.

    The image is converted to the channels of the input. For an input of floats the pixels become
    floats in 0..1 (`tf.image.convert_image_dtype`) or the range that `options` names; for integers
    they remain 0..255. A batch dimension is added if the input has one. A channel dimension of size
    1 is removed if the input has none.

    Raises:
        InvalidArgumentError: the size (with `resize` off) or the rank does not fit, or the pixels
            cannot have the range in the input's type.
    """
    options = options or ImageOptions()
    resize = options.resize
    height, width, channels = _layout(spec)
    size = (height, width) if resize and height > 0 and width > 0 else None
    image = read_image(data, source.text, channels=channels if channels > 0 else None, size=size)
    if height not in (-1, image.shape[0]) or width not in (-1, image.shape[1]):
        raise _wrong_size(image, (height, width), source, spec)
    return _placed(_scaled(image, source, spec, options), source, spec)


def image_arrays(
    images: Sequence[tuple[Source, bytes]], spec: InputSpec, options: ImageOptions
) -> list[Array | OpError]:
    """Return for each image what `image_array` returns, or the error that it raises.

    Small PNG files of one size are decoded together.
    """
    height, width, channels = _layout(spec)
    found: list[Array | OpError | None] = [None] * len(images)
    contents = [data for _, data in images]
    for indices, pixels in decode_together(contents, channels if channels > 0 else None):
        if height not in (-1, pixels.shape[1]) or width not in (-1, pixels.shape[2]):
            continue
        try:
            arrays = _scaled(pixels, images[indices[0]][0], spec, options)
            for index, array in zip(indices, arrays, strict=True):
                found[index] = _placed(array, images[index][0], spec)
        except OpError:
            continue  # `image_array` raises it for each
    return [
        _array_or_error(source, data, spec, options) if array is None else array
        for array, (source, data) in zip(found, images, strict=True)
    ]


def _array_or_error(
    source: Source, data: bytes, spec: InputSpec, options: ImageOptions
) -> Array | OpError:
    try:
        return image_array(source, data, spec, options)
    except OpError as error:
        return error


def _placed(array: Array, source: Source, spec: InputSpec) -> Array:
    """Return an image reshaped to the rank of the input.

    Raises:
        InvalidArgumentError: the input takes another.
    """
    for candidate in (array[np.newaxis], array, array[np.newaxis, :, :, 0], array[:, :, 0]):
        if spec.takes(candidate.shape):
            return candidate
    raise InvalidArgumentError(
        f"{source} is an image of shape {show_shape(array.shape)} (height, width, channels), "
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


def _scaled(image: Array, source: Source, spec: InputSpec, options: ImageOptions) -> Array:
    """Return the pixels in the dtype of the input; floats are scaled to the requested range.

    Semantics: tensorflow/python/ops/image_ops_impl.py (`convert_image_dtype`, for floats).
    """
    white = 0xFF if image.dtype == np.uint8 else 0xFFFF
    if spec.dtype is None:
        return image
    target = spec.dtype.base_dtype
    if not target.is_floating:
        if options.pixels and options.pixels != f"0..{white}":
            raise InvalidArgumentError(
                f"input {spec.name!r} has integers ({target.name}), which cannot have pixels in "
                f"{options.pixels}; its pixels are in 0..{white}"
            )
        return image.astype(target.as_numpy_dtype)
    name = options.pixels or _DEFAULT_RANGE
    if options.on_note is not None:
        others = "" if options.pixels else "; --pixels (pixels=) chooses 0..255 or -1..1"
        options.on_note(f"the pixels of {source.text} are scaled to {name}{others}")
    low, high = PIXEL_RANGES[name]
    scale = (high - low) / white
    array: Array = image.astype(target.as_numpy_dtype)
    if scale != 1.0:
        array *= array.dtype.type(scale)
    if low:
        array += array.dtype.type(low)
    return array
