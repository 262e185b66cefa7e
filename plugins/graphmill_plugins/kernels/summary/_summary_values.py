"""Convert tensors to the values of summaries: histograms, images and audio clips.

Semantics: tensorflow/core/lib/histogram/histogram.cc, tensorflow/core/summary/summary_converter.cc,
tensorflow/core/lib/wav/wav_io.cc.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi.protos import HistogramProto
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels._wav import wav_file
from graphmill_plugins.kernels.image.encode import encode_png

if TYPE_CHECKING:
    from graphmill.spi import Value
    from graphmill.spi.protos import Summary

_MIN_LIMIT, _MAX_LIMIT, _GROWTH = 1e-12, 1e20, 1.1
_INT16 = 1 << 15


@cache
def bucket_limits() -> np.ndarray[Any, Any]:
    """Return the upper limits of the buckets, which grow by 10% on both sides of zero."""
    positive = []
    limit = _MIN_LIMIT
    while limit < _MAX_LIMIT:
        positive.append(limit)
        limit *= _GROWTH
    positive.append(sys.float_info.max)
    return np.array([-limit for limit in reversed(positive)] + [0.0] + positive)


def histogram(values: Value, tag: str) -> HistogramProto:
    """Return the histogram of all elements.

    Raises:
        InvalidArgumentError: an element is NaN or infinite.
    """
    flat = np.asarray(values).ravel().astype(np.float64)
    if np.isnan(flat).any():
        raise InvalidArgumentError(f"Nan in summary histogram for: {tag}")
    if np.isinf(flat).any():
        raise InvalidArgumentError(f"Infinity in summary histogram for: {tag}")
    limits = bucket_limits()
    bucket_indices = np.searchsorted(limits, flat, side="right")
    buckets = np.bincount(bucket_indices, minlength=len(limits)).astype(np.float64)
    message = HistogramProto(
        min=flat.min(initial=sys.float_info.max),
        max=flat.max(initial=-sys.float_info.max),
        num=len(flat),
        # Summed sequentially as in TensorFlow; `np.sum` adds pairwise.
        sum=_sum(flat),
        sum_squares=_sum(flat * flat),
    )
    # Of a run of empty buckets only the last one is written.
    is_written = (buckets > 0) | np.append(buckets[1:] > 0, True)
    message.bucket_limit.extend(limits[is_written].tolist())
    message.bucket.extend(buckets[is_written].tolist())
    return message


def _sum(values: np.ndarray[Any, Any]) -> float:
    total = float(np.add.accumulate(values)[-1]) if len(values) else 0.0
    return total + 0.0  # never -0.0


def add_images(summary: Summary, tag: str, tensor: Value, max_count: int, bad_color: Value) -> None:
    """Add the first images of a batch to a summary, as PNG.

    Raises:
        InvalidArgumentError: the tensor is not a batch of images with 1, 3 or 4 channels.
    """
    if tensor.ndim != 4 or tensor.shape[3] not in (1, 3, 4):
        raise InvalidArgumentError(
            f"Tensor must be 4-D with last dim 1, 3, or 4, not {shape_text(tensor.shape)}"
        )
    if max_count < 1:
        raise InvalidArgumentError(f"max_images must be positive, got {max_count}")
    depth = tensor.shape[3]
    color = np.asarray(bad_color)
    if tensor.dtype != np.uint8 and (color.ndim != 1 or len(color) < depth):
        raise InvalidArgumentError(
            f"expected a bad_color of at least {depth} values, got {shape_text(color.shape)}"
        )
    for index, image in enumerate(tensor[:max_count]):
        pixels = image if tensor.dtype == np.uint8 else _normalized(image, color[:depth])
        value = summary.value.add(tag=_numbered(tag, "image", index, max_count))
        value.image.height, value.image.width = image.shape[:2]
        value.image.colorspace = depth
        value.image.encoded_image_string = encode_png(np, pixels, -1).item()


def _numbered(tag: str, kind: str, index: int, max_count: int) -> str:
    return f"{tag}/{kind}" if max_count == 1 else f"{tag}/{kind}/{index}"


def _normalized(image: Value, bad_color: Value) -> Value:
    """Scale a float image to bytes: 0 to 255, or around 128 if it has negative values."""
    values = image.astype(np.float32)
    is_finite = np.isfinite(values).all(axis=-1)
    finite = values[is_finite]
    low, high = finite.min(initial=np.inf), finite.max(initial=-np.inf)
    if low < 0:
        largest = max(abs(low), abs(high))
        scale, offset = (0.0 if largest < _MIN_LIMIT else 127.0 / largest), 128.0
    else:
        scale, offset = (0.0 if high < _MIN_LIMIT else 255.0 / high), 0.0
    result = np.empty(values.shape, np.uint8)
    result[is_finite] = (finite * np.float32(scale) + np.float32(offset)).astype(np.uint8)
    result[~is_finite] = bad_color
    return result


def add_audio(summary: Summary, tag: str, tensor: Value, rate: float, max_count: int) -> None:
    """Add the first audio clips of a batch to a summary, as 16-bit WAV.

    Raises:
        InvalidArgumentError: the tensor does not have 2 or 3 axes, or the rate is not positive.
    """
    if tensor.ndim not in (2, 3):
        raise InvalidArgumentError(f"Tensor must be 3-D or 2-D, got: {shape_text(tensor.shape)}")
    if rate <= 0:
        raise InvalidArgumentError(f"sample_rate must be > 0, got {rate}")
    if max_count < 1:
        raise InvalidArgumentError(f"max_outputs must be positive, got {max_count}")
    for index, clip in enumerate(tensor[:max_count]):
        channels = clip.shape[1] if clip.ndim == 2 else 1
        value = summary.value.add(tag=_numbered(tag, "audio", index, max_count))
        value.audio.sample_rate = rate
        value.audio.num_channels = channels
        value.audio.length_frames = clip.shape[0]
        value.audio.content_type = "audio/wav"
        value.audio.encoded_audio_string = wav(clip, max(round(rate), 1), channels)


def wav(samples: Value, rate: int, channels: int) -> bytes:
    """Return a WAV file of 16-bit samples, from floats in [-1, 1]."""
    scaled = samples.astype(np.float32) * np.float32(_INT16)
    rounded = np.trunc(scaled + np.copysign(np.float32(0.5), scaled))
    data = np.clip(rounded, -_INT16, _INT16 - 1).astype("<i2").tobytes()
    return wav_file(data, channels, rate)
