"""Decode JPEGs with the libjpeg options that TensorFlow uses.

TensorFlow computes the cosine transform fast by default, and smooths subsampled colours. Pillow has
two modes: by default it computes the transform accurately and smooths colours; for drafts it does
neither. Where both attrs apply and select different modes, the smoothing decides.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from graphmill import errors

_ACCURATE = "INTEGER_ACCURATE"


class JpegOptions(NamedTuple):
    """The attrs `dct_method` and `fancy_upscaling` of TensorFlow's ops."""

    dct_method: str = ""
    fancy_upscaling: bool = True


def use_options(image: Any, channels: int, options: JpegOptions) -> None:
    """Set up the decoder of a JPEG whose pixels were not read yet; ignore other formats."""
    if image.format != "JPEG":
        return
    if channels == 1 and image.mode == "RGB":
        image.draft("L", None)  # takes the luminance as it is stored, as TensorFlow does
    is_draft = options.dct_method != _ACCURATE
    if image.mode != "L" and _has_subsampled_colours(image):
        is_draft = not options.fancy_upscaling
    scale = image.decoderconfig[0] if image.decoderconfig else 1
    image.decoderconfig = (scale, int(is_draft))


def scale_down(image: Any, ratio: int) -> None:
    """Let a JPEG be decoded at 1 / `ratio` of its size, rounded up; ignore other formats.

    Raises:
        UnimplementedError: a side has fewer pixels than `ratio`.
    """
    if image.format != "JPEG":
        return
    width, height = image.size
    if min(width, height) < ratio:
        raise errors.UnimplementedError(
            f"Pillow cannot decode {width} x {height} pixels at 1/{ratio} of their size; leave out "
            "ratio"
        )
    image.draft(None, (width // ratio, height // ratio))


def _has_subsampled_colours(image: Any) -> bool:
    return len({(across, down) for _, across, down, _ in image.layer}) > 1
