"""AudioMicrofrontend: filterbank features of 16-bit audio, in fixed-point arithmetic.

Each frame of samples is windowed and transformed. The energies of its frequencies are summed into
channels; then noise is subtracted, the gain is controlled, and the logarithm is taken. All stages
are integer arithmetic, so the results are TensorFlow's bit for bit.
Semantics: tensorflow/lite/experimental/microfrontend: ops/audio_microfrontend_op.cc and lib.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import dtypes
from graphmill.errors import InternalError, InvalidArgumentError
from graphmill.spi import kernel
from graphmill.spi.kernels import cancellable
from graphmill_plugins.kernels._support import check_size, shape_text
from graphmill_plugins.kernels.audio._fixed_fft import RealTransform
from graphmill_plugins.kernels.audio._fixed_gain import GainTable, shrunk

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Value

_F, _U32, _U64 = np.float32, np.uint32, np.uint64
_WINDOW_BITS: Final = 12
_WEIGHT_BITS: Final = 12
_SMOOTHING_BITS: Final = 14
_LOG_BITS: Final = 16
_LOG_SEGMENT_BITS: Final = 7
_UINT16_MAX: Final = 0xFFFF


@dataclass(frozen=True)
class _Attrs:
    """The attrs of a node; see the documentation of the op."""

    sample_rate: int
    window_size: int
    window_step: int
    num_channels: int
    upper_band_limit: float
    lower_band_limit: float
    smoothing_bits: int
    even_smoothing: float
    odd_smoothing: float
    min_signal_remaining: float
    enable_pcan: bool
    pcan_strength: float
    pcan_offset: float
    gain_bits: int
    enable_log: bool
    scale_shift: int
    left_context: int
    right_context: int
    frame_stride: int
    zero_padding: bool
    out_scale: int

    @property
    def size(self) -> int:
        """The number of samples of a frame."""
        return self.window_size * self.sample_rate // 1000

    @property
    def step(self) -> int:
        """The number of samples between the starts of two frames."""
        return self.window_step * self.sample_rate // 1000

    def check(self) -> None:
        """Raise InvalidArgumentError for values for which TensorFlow's arithmetic is undefined."""
        _check("sample_rate", self.sample_rate, 1, 1 << 24)
        _check("window_size * sample_rate / 1000", self.size, 3, 1 << 20)
        _check("window_step * sample_rate / 1000", self.step, 1, self.size)
        _check("num_channels", self.num_channels, 1, 1 << 14)
        _check("smoothing_bits", self.smoothing_bits, 0, 31)
        _check("scale_shift", self.scale_shift, 0, 31)
        _check("gain_bits", self.gain_bits, 0, 31)
        for name in ("left_context", "right_context"):
            _check(name, getattr(self, name), 0, 1 << 20)
        _check("frame_stride", self.frame_stride, 1, 1 << 31)
        for name in ("even_smoothing", "odd_smoothing", "min_signal_remaining"):
            if not 0 <= getattr(self, name) < 4:
                raise InvalidArgumentError(
                    f"{name} must be at least 0 and less than 4, got {getattr(self, name)}"
                )
        if not 0 <= self.lower_band_limit < self.upper_band_limit < math.inf:
            raise InvalidArgumentError(
                "band limits must be finite and rise from 0 or more, got lower_band_limit="
                f"{self.lower_band_limit} and upper_band_limit={self.upper_band_limit}"
            )
        if not (0 <= self.pcan_offset < math.inf and math.isfinite(self.pcan_strength)):
            raise InvalidArgumentError(
                "pcan_offset must be finite and at least 0, and pcan_strength finite, got "
                f"{self.pcan_offset} and {self.pcan_strength}"
            )
        if not self.out_scale:
            raise InvalidArgumentError("out_scale divides the result and must not be 0")


def _check(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InvalidArgumentError(f"{name} must be from {least} to {most}, got {value}")


def _bit_length(x: Any) -> Any:
    """Return the number of bits of non-negative integers below 2**53."""
    return np.frexp(np.asarray(x, np.float64))[1]


def _window(size: int) -> Any:
    """Return a Hann window with 12 fraction bits."""
    angle = _F(math.pi * 2.0 / float(_F(size)))
    values = _F(0.5 - 0.5 * np.cos(float(angle) * (np.arange(size) + 0.5)))
    return np.floor(values.astype(np.float64) * (1 << _WINDOW_BITS) + 0.5).astype(np.int64)


def _mel(hertz: Any) -> Any:
    """Convert float32 hertz to the mel scale, rounded to float32."""
    return _F(1127.0 * np.log1p(np.asarray(hertz, _F).astype(np.float64) / 700.0))


class _Filterbank:
    """The weights with which each frequency's energy is added to two neighbouring channels.

    The channels divide the frequencies into bands. A frequency of a band adds a share of its energy
    to the channel below the band, the rest to the one above.

    Args:
        attrs: those of the node.
        bins: the number of frequencies.

    Raises:
        InternalError: a channel reaches beyond the last frequency.
    """

    def __init__(self, attrs: _Attrs, bins: int) -> None:
        low, high = _mel(attrs.lower_band_limit), _mel(attrs.upper_band_limit)
        count = attrs.num_channels + 1
        centres = low + (high - low) / _F(count) * np.arange(1, count + 1, dtype=_F)
        width = _F(0.5 * attrs.sample_rate / float(_F(bins) - _F(1)))
        self._start = int(1.5 + float(_F(attrs.lower_band_limit) / width))
        mels = _mel(np.arange(self._start, max(bins, self._start)).astype(_F) * width)
        if self._start >= bins or mels[-1] <= centres[-1]:
            raise InternalError(
                f"failed to populate frontend state: upper_band_limit={attrs.upper_band_limit} "
                f"is beyond the {bins} frequencies of a frame at a sample rate of "
                f"{attrs.sample_rate}"
            )
        self._ends = np.searchsorted(np.maximum.accumulate(mels), centres, side="right")
        last = int(self._ends[-1])
        self._energies = slice(self._start, self._start + last)
        bands = np.repeat(np.arange(count), np.diff(self._ends, prepend=0))
        starts = np.concatenate([low[None], centres[:-1]])
        share = (centres[bands] - mels[:last]) / (centres - starts)[bands]
        self._weights = [_weights(share), _weights(1.0 - share.astype(np.float64))]

    def amplitudes(self, spectrum: Any) -> Any:
        """Return the square roots of the energies of the channels, as uint64 [frames, channels]."""
        real, imaginary = spectrum[..., self._energies]
        energies = (real * real + imaginary * imaginary).astype(np.int64)  # 2**31 wraps, as in C
        above, below = (self._bands(energies * weights) for weights in self._weights)
        return _square_root((below[:, :-1] + above[:, 1:]).view(_U64))

    def _bands(self, energies: Any) -> Any:
        """Return the sums of the bands, of which some have no frequency."""
        sums = np.zeros((len(energies), energies.shape[1] + 1), np.int64)
        np.cumsum(energies, axis=1, out=sums[:, 1:])
        return np.diff(sums[:, self._ends], axis=1, prepend=0)


def _weights(shares: Any) -> Any:
    """Return shares as fixed-point numbers."""
    return np.floor(shares.astype(np.float64) * (1 << _WEIGHT_BITS) + 0.5).astype(np.int64)


def _square_root(x: Any) -> Any:
    """Return rounded square roots of uint64."""
    root = np.sqrt(x.astype(np.float64)).astype(_U64)
    root = np.minimum(root, _U64(0xFFFFFFFF))
    root = root - (root * root > x)
    root = root + ((root < 0xFFFFFFFF) & ((root + _U64(1)) * (root + _U64(1)) <= x))
    most = np.where(x >> _U64(32), _U64(0xFFFFFFFF), _U64(_UINT16_MAX))
    return root + ((x - root * root > root) & (root != most))


class _NoiseReduction:
    """Subtracts an estimate of the stationary noise, which follows the signal slowly."""

    def __init__(self, attrs: _Attrs) -> None:
        is_odd = np.arange(attrs.num_channels) % 2
        smoothing = np.array([attrs.even_smoothing, attrs.odd_smoothing], _F)
        smoothing = smoothing * _F(1 << _SMOOTHING_BITS)
        self._smoothing = smoothing.astype(np.uint16).astype(_U64)[is_odd]
        self._rest = (_U64(1 << _SMOOTHING_BITS) - self._smoothing) & _U64(0xFFFFFFFF)
        least = _F(attrs.min_signal_remaining) * _F(1 << _SMOOTHING_BITS)
        self._least = _U64(np.uint16(least))
        self._bits = _U64(attrs.smoothing_bits)

    def apply(self, signal: Any) -> tuple[Any, Any]:
        """Return the signal without noise and the estimates: uint32 values, as uint64."""
        scaled = (signal << self._bits) & _U64(0xFFFFFFFF)
        estimates = self._estimates(scaled)
        remaining = (scaled - np.minimum(estimates, scaled)) >> self._bits
        least = (signal * self._least >> _U64(_SMOOTHING_BITS)) & _U64(0xFFFFFFFF)
        return np.maximum(remaining, least), estimates

    def _estimates(self, scaled: Any) -> Any:
        """Return the estimate after each frame."""
        estimates = scaled * self._smoothing
        last, rest = np.zeros_like(self._rest), np.empty_like(self._rest)
        for estimate in cancellable(estimates):
            np.multiply(last, self._rest, out=rest)
            estimate += rest
            estimate >>= _U64(_SMOOTHING_BITS)
            estimate &= _U64(0xFFFFFFFF)
            last = estimate
        return estimates


def _log_corrections() -> Any:
    """Return log2(1 + x) - x for 128 segments of x, with 16 fraction bits."""
    x = np.arange((1 << _LOG_SEGMENT_BITS) + 1) / (1 << _LOG_SEGMENT_BITS)
    return np.round((np.log2(1 + x) - x) * (1 << _LOG_BITS)).astype(np.int64)


_CORRECTIONS: Final = _log_corrections()
_LOG_OF_2: Final = 45426  # with 16 fraction bits, rounded down


def _logarithm(x: Any, shift: int) -> Any:
    """Return natural logarithms of uint32 values above 1, times 2**shift."""
    power = _bit_length(x) - 1
    fraction = x.astype(np.int64) - (np.int64(1) << power)
    fraction = np.where(
        power < _LOG_BITS,
        fraction << np.maximum(_LOG_BITS - power, 0),
        fraction >> np.maximum(power - _LOG_BITS, 0),
    )
    unit_bits = _LOG_BITS - _LOG_SEGMENT_BITS
    segment = fraction >> unit_bits
    start, end = _CORRECTIONS[segment], _CORRECTIONS[segment + 1]
    between = ((end - start) * (fraction - (segment << unit_bits))) >> _LOG_BITS
    log2 = (power.astype(np.int64) << _LOG_BITS) + fraction + start + between
    half = 1 << (_LOG_BITS - 1)
    natural = (_LOG_OF_2 * log2 + half) >> _LOG_BITS
    return ((((natural << shift) & 0xFFFFFFFF) + half) & 0xFFFFFFFF) >> _LOG_BITS


class _Frontend:
    """The stages from samples to features."""

    def __init__(self, attrs: _Attrs) -> None:
        attrs.check()
        self._attrs = attrs
        self._length = 1 << (attrs.size - 1).bit_length()
        self._window = _window(attrs.size)
        self._filterbank = _Filterbank(attrs, self._length // 2 + 1)
        self._transform = RealTransform(self._length)
        self._noise = _NoiseReduction(attrs)
        self._correction = self._length.bit_length() - 1 - _WEIGHT_BITS // 2
        self._gain = None
        if attrs.enable_pcan:
            self._gain = GainTable(
                attrs.pcan_strength,
                attrs.pcan_offset,
                attrs.gain_bits,
                attrs.smoothing_bits - self._correction,
            )
            shift = attrs.gain_bits - self._correction - 12
            _check("gain_bits - log2(frame length) - 6", shift, 0, 63)
            self._gain_shift = _U64(shift)

    def features(self, audio: Any) -> Any:
        """Return the features of all frames, as int64 [frames, channels]."""
        attrs = self._attrs
        if len(audio) < attrs.size:
            return np.zeros((0, attrs.num_channels), np.int64)
        starts = np.arange(0, len(audio) - attrs.size + 1, attrs.step)
        check_size((len(starts), self._length), "the frames", itemsize=8)
        frames = audio[starts[:, None] + np.arange(attrs.size)].astype(np.int64)
        amplitudes = self._amplitudes(frames * self._window >> _WINDOW_BITS)
        rows = self._controlled(*self._noise.apply(amplitudes))
        return np.minimum(self._scaled(rows), _UINT16_MAX).astype(np.int64)

    def _amplitudes(self, windowed: Any) -> Any:
        """Return the amplitudes of the channels; each frame is scaled up for the transform."""
        loudest = np.max(np.abs(windowed.astype(np.int16)), axis=1, initial=0)
        shift = 15 - _bit_length(loudest)[:, None]
        padding = self._length - self._attrs.size
        samples = np.pad((windowed << shift).astype(np.int16), ((0, 0), (0, padding)))
        return self._filterbank.amplitudes(self._transform(samples)) >> shift.astype(_U64)

    def _controlled(self, rows: Any, noise: Any) -> Any:
        """Return frames with their gain controlled by estimates of their noise."""
        if self._gain is None:
            return rows
        gain = self._gain.of(noise).astype(_U64) & _U64(0xFFFFFFFF)
        return shrunk((rows * gain >> self._gain_shift) & _U64(0xFFFFFFFF))

    def _scaled(self, rows: Any) -> Any:
        """Return logarithms, if the node asks for them."""
        if not self._attrs.enable_log:
            return rows
        shift = _U64(abs(self._correction))
        moved = rows >> shift if self._correction < 0 else rows << shift & _U64(0xFFFFFFFF)
        logs = _logarithm(np.maximum(moved, 2), self._attrs.scale_shift)
        return np.where(moved > 1, logs, 0)


def _stacked(features: Any, attrs: _Attrs) -> Any:
    """Return each frame joined with its neighbours; beyond the ends, these are copies or zeros."""
    anchors = np.arange(0, len(features), attrs.frame_stride)[:, None]
    neighbours = anchors + np.arange(-attrs.left_context, attrs.right_context + 1)
    width = neighbours.shape[1] * attrs.num_channels
    check_size((len(anchors), width), "the features", itemsize=8)
    if not len(features):
        return np.zeros((0, width), np.int64)
    stacked = features[np.clip(neighbours, 0, len(features) - 1)]
    if attrs.zero_padding:
        outside = (neighbours < 0) | (neighbours >= len(features))
        stacked = np.where(outside[:, :, None], 0, stacked)
    return stacked.reshape(len(anchors), width)


@kernel(
    "AudioMicrofrontend",
    types={"out_type": (dtypes.uint16, dtypes.float32)},
    make=True,
    host=True,
    expensive=True,
)
def audio_microfrontend(out_type: np.dtype[Any], **attrs: Any) -> Callable[[Value], Value]:
    """Return the features of audio: int16 [samples] becomes [frames, channels of all neighbours].

    Raises:
        InvalidArgumentError: an attr is out of the range for which the arithmetic is defined, or
            the audio is not a vector.
        InternalError: the upper band limit is above the highest frequency.
    """
    options = _Attrs(**attrs)
    frontend = _Frontend(options)

    def run(audio: Value) -> Value:
        if audio.ndim != 1:
            raise InvalidArgumentError(
                f"audio is not a vector: it has shape {shape_text(audio.shape)}"
            )
        features = _stacked(frontend.features(np.asarray(audio)), options)
        if out_type.kind == "f":
            return features.astype(_F) / _F(options.out_scale)
        quotient = np.abs(features) // abs(options.out_scale)
        return (quotient if options.out_scale > 0 else -quotient).astype(out_type)

    return run
