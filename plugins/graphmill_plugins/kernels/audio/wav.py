"""DecodeWav and EncodeWav kernels for 16-bit WAV files.

Semantics: tensorflow/core/lib/wav/wav_io.cc, tensorflow/core/kernels/decode_wav_op.cc,
encode_wav_op.cc.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._strings import scalar_bytes, string_scalar
from graphmill_plugins.kernels._support import check_size, scalar_int, shape_text
from graphmill_plugins.kernels._wav import wav_file

if TYPE_CHECKING:
    from graphmill.spi import Value

_PCM = 1
_BYTES = 2  # of a sample
_SCALE = np.float32(1 << 15)
_MAX_UINT32 = (1 << 32) - 1


class _Format(NamedTuple):
    """The WAV chunk that describes the sample format."""

    kind: int
    channels: int
    rate: int
    bytes_per_second: int
    bytes_per_frame: int
    bits: int

    def check(self) -> None:
        """Raise InvalidArgumentError unless TensorFlow reads this format."""
        frame = _BYTES * self.channels
        if self.kind != _PCM or self.bits != 8 * _BYTES:
            raise InvalidArgumentError(
                f"Can only read 16-bit PCM WAV files, but received format {self.kind} with "
                f"{self.bits} bits"
            )
        if not self.channels or self.bytes_per_frame != frame:
            raise InvalidArgumentError(
                f"Bad bytes per sample in WAV header: Expected {frame} for {self.channels} "
                f"channels but got {self.bytes_per_frame}"
            )
        if self.bytes_per_second != frame * self.rate:
            raise InvalidArgumentError(
                f"Bad bytes per second in WAV header: Expected {frame * self.rate} but got "
                f"{self.bytes_per_second} (sample_rate={self.rate}, bytes_per_sample={frame})"
            )


def _take(contents: bytes, start: int, size: int) -> bytes:
    if start + size > len(contents):
        raise InvalidArgumentError(
            f"Data too short when trying to read string: {size} bytes at {start} of {len(contents)}"
        )
    return contents[start : start + size]


def _expect(contents: bytes, start: int, text: bytes) -> None:
    actual = _take(contents, start, len(text))
    if actual != text:
        raise InvalidArgumentError(f"Header mismatch: Expected {text!r} but found {actual!r}")


def _read(contents: bytes) -> tuple[_Format, Any]:
    """Return the format and the samples (samples, channels) of a file, as int16."""
    _expect(contents, 0, b"RIFF")
    _expect(contents, 8, b"WAVE")
    _expect(contents, 12, b"fmt ")
    (size,) = struct.unpack("<I", _take(contents, 16, 4))
    if size not in (16, 18):
        raise InvalidArgumentError(f"Bad chunk size for WAV: Expected 16 or 18, but got {size}")
    wav_format = _Format(*struct.unpack("<HHIIHH", _take(contents, 20, 16)))
    wav_format.check()
    start = 20 + size
    while start < len(contents):
        name = _take(contents, start, 4)
        (size,) = struct.unpack("<I", _take(contents, start + 4, 4))
        start += 8
        if name == b"data":
            count = size // wav_format.bytes_per_frame
            data = _take(contents, start, count * wav_format.bytes_per_frame)
            return wav_format, np.frombuffer(data, "<i2").reshape(count, wav_format.channels)
        start += size
    raise InvalidArgumentError("No data chunk found in WAV")


@kernel("DecodeWav", host=True, dynamic_shape=True, expensive=True)
def decode_wav(contents: Value, desired_channels: int, desired_samples: int) -> tuple[Value, Value]:
    """Return samples (samples, channels) from -1 to 1, and the sample rate.

    Additional channels repeat the last one; additional samples are zero.
    """
    wav_format, samples = _read(scalar_bytes(contents))
    channels = wav_format.channels if desired_channels == -1 else desired_channels
    count = len(samples) if desired_samples == -1 else desired_samples
    check_size((count, channels), "the audio", itemsize=4)
    out = np.zeros((count, channels), np.float32)
    if channels:
        channel_indices = np.minimum(np.arange(channels), wav_format.channels - 1)
        selected = samples[:count, channel_indices]
        out[: len(selected)] = selected.astype(np.float32) / _SCALE
    return out, np.int32(wav_format.rate)


@kernel("EncodeWav", host=True, expensive=True)
def encode_wav(audio: Value, sample_rate: Value) -> Value:
    """Return samples (samples, channels) from -1 to 1 as a WAV file."""
    if audio.ndim != 2:
        raise InvalidArgumentError(
            f"audio must be 2-dimensional, got shape {shape_text(audio.shape)}"
        )
    rate = scalar_int("sample_rate", sample_rate)
    scaled = audio * _SCALE
    whole = np.trunc(scaled)
    rounded = whole + np.where(np.abs(scaled - whole) >= 0.5, np.sign(scaled), 0)
    data = np.clip(rounded, -(1 << 15), (1 << 15) - 1).astype("<i2").tobytes()
    return string_scalar(wav_file(data, audio.shape[1], rate))
