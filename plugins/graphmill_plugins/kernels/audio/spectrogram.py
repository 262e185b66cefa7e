"""AudioSpectrogram and Mfcc kernels: frequency spectra of audio over time.

Semantics: tensorflow/core/kernels/spectrogram.cc, mfcc.cc, mfcc_mel_filterbank.cc, mfcc_dct.cc.
Results are computed in float64 and rounded once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._matmul import matmul_of
from graphmill_plugins.kernels._support import check_size, scalar_int, shape_text

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value

_FLOOR = 1e-12  # minimum of a filter's output, so that its logarithm is finite


@kernel("AudioSpectrogram", expensive=True)
def audio_spectrogram(
    xp: ArrayNamespace, audio: Value, window_size: int, stride: int, magnitude_squared: bool
) -> Value:
    """Return (channels, frames, frequencies) of samples (samples, channels), as float32."""
    if window_size < 2 or stride < 1:
        raise InvalidArgumentError(
            f"Spectrogram initialization failed for window size {window_size} and stride {stride}"
        )
    if audio.ndim != 2:
        raise InvalidArgumentError(
            f"input must be 2-dimensional, got shape {shape_text(audio.shape)}"
        )
    length = 1 << (window_size - 1).bit_length()
    count = max((audio.shape[0] - window_size) // stride + 1, 0)
    check_size((audio.shape[1], count, length), "the windows", itemsize=8)
    if not count or not audio.shape[1]:
        return xp.zeros((audio.shape[1], count, length // 2 + 1), np.float32)
    indices = np.arange(count)[:, None] * stride + np.arange(window_size)
    angle = 2 * math.pi * np.arange(window_size) / window_size
    frames = audio.astype(np.float64).T[:, indices] * (0.5 - 0.5 * np.cos(angle))
    spectrum = xp.fft.rfft(frames, length)
    squared = (spectrum.real**2 + spectrum.imag**2).astype(np.float32)
    return squared if magnitude_squared else xp.sqrt(squared)


def _mel(hertz: Any) -> Any:
    """Convert a frequency in hertz to the mel scale."""
    return 1127.0 * np.log1p(hertz / 700.0)


def _filters(bins: int, rate: int, channels: int, low: float, high: float) -> Any:
    """Return the matrix (bins, channels) of triangular filters, evenly spaced in mel."""
    check_size((bins + 1, channels), "the matrix of filters", itemsize=8)
    spacing = (_mel(high) - _mel(low)) / (channels + 1)
    centres = _mel(low) + spacing * np.arange(1, channels + 2)
    width = 0.5 * rate / (bins - 1)
    matrix = np.zeros((bins, channels))
    last = int(high / width)
    if last >= bins:
        raise InvalidArgumentError(
            f"upper_frequency_limit {high} exceeds the range of {bins} bins at a sample rate of "
            f"{rate}"
        )
    index = np.arange(int(1.5 + low / width), last + 1)
    pitch = _mel(index * width)
    band = np.minimum(np.searchsorted(centres, pitch), channels)  # up to the centre of this number
    ends = np.concatenate([[_mel(low)], centres])
    share = (ends[band + 1] - pitch) / (ends[band + 1] - ends[band])
    for weights, channel in ((share, band - 1), (1 - share, band)):
        inside = (channel >= 0) & (channel < channels)
        matrix[index[inside], channel[inside]] = weights[inside]
    return matrix


def _cosines(inputs: int, outputs: int) -> Any:
    """Return the matrix (inputs, outputs) of a discrete cosine transform."""
    check_size((inputs, outputs), "the matrix of cosines", itemsize=24)
    positions = np.arange(inputs)[:, None] + 0.5
    angle = np.arange(outputs) * (math.pi / inputs) * positions
    return math.sqrt(2.0 / inputs) * np.cos(angle)


def _check(
    spectrogram: Value, rate: int, channels: int, coefficients: int, low: float, high: float
) -> None:
    """Raise InvalidArgumentError unless coefficients can be computed."""
    if spectrogram.ndim != 3:
        raise InvalidArgumentError(
            f"spectrogram must be 3-dimensional, got shape {shape_text(spectrogram.shape)}"
        )
    bins = spectrogram.shape[2]
    is_possible = 0 <= low < high and bins > 1 and rate > 0
    if not is_possible or channels < 1 or not 1 <= coefficients <= channels:
        raise InvalidArgumentError(
            f"Mfcc initialization failed for channel count {bins}, sample rate {rate}, "
            f"lower_frequency_limit {low}, upper_frequency_limit {high}, filterbank_channel_count "
            f"{channels}, dct_coefficient_count {coefficients}"
        )


@kernel("Mfcc", static=("sample_rate",), expensive=True)
def mfcc(
    xp: ArrayNamespace,
    spectrogram: Value,
    sample_rate: Value,
    upper_frequency_limit: float,
    lower_frequency_limit: float,
    filterbank_channel_count: int,
    dct_coefficient_count: int,
) -> Value:
    """Return the Mel-frequency cepstral coefficients of squared magnitudes.

    (channels, frames, frequencies) become (channels, frames, coefficients), as float32.
    """
    rate = scalar_int("sample_rate", sample_rate)
    low, high = lower_frequency_limit, upper_frequency_limit
    _check(spectrogram, rate, filterbank_channel_count, dct_coefficient_count, low, high)
    filters = _filters(spectrogram.shape[2], rate, filterbank_channel_count, low, high)
    filtered = matmul_of(xp)(xp.sqrt(spectrogram.astype(np.float64)), filters)
    logs = xp.log(xp.maximum(filtered, _FLOOR))
    cosines = _cosines(filterbank_channel_count, dct_coefficient_count)
    return matmul_of(xp)(logs, cosines).astype(np.float32)
