"""Per-channel amplitude normalization (PCAN) in fixed-point arithmetic.

Semantics: tensorflow/lite/experimental/microfrontend/lib/pcan_gain_control.c and its utilities.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

_F = np.float32
_INTERVALS: Final = 32
_SIGNAL_BITS: Final = 12
_OUTPUT_BITS: Final = 6
_INT16_MAX: Final = 0x7FFF


class GainTable:
    """The gain as a function of the noise, interpolated by a parabola in each octave.

    Args:
        strength: the exponent of the normalization.
        offset: a number that is added to the noise.
        gain_bits: the number of fraction bits of the gain.
        input_bits: the number of fraction bits of the noise; at least 0.
    """

    def __init__(self, strength: float, offset: float, gain_bits: int, input_bits: int) -> None:
        self._strength, self._offset = _F(strength), _F(offset)
        self._scale, self._unit = _F(1 << gain_bits), _F(2.0**input_bits)
        powers = np.arange(2, _INTERVALS + 1)
        start = np.uint64(1) << (powers - 1).astype(np.uint64)
        end = np.minimum(2 * start, 0xFFFFFFFF)
        values = [self._exact(x) for x in (start, start + start // 2, end)]
        middle, last = values[1] - values[0], values[2] - values[0]
        slope = 4 * middle - last
        self._small = self._exact(np.arange(2, dtype=np.uint64))
        self._first = values[0]
        self._slope = slope.astype(np.int16).astype(np.int64)
        self._bend = (last - slope).astype(np.int16).astype(np.int64)

    def _exact(self, noise: Any) -> Any:
        x = noise.astype(_F) / self._unit + self._offset
        with np.errstate(divide="ignore", over="ignore"):
            powers = np.power(x.astype(np.float64), -np.float64(self._strength)).astype(_F)
            gain = self._scale * powers
        return (np.minimum(gain, _F(_INT16_MAX)) + _F(0.5)).astype(np.int64)

    def of(self, noise: Any) -> Any:
        """Return the gain for uint32 noise, as int64."""
        noise = noise.astype(np.int64)
        octave = np.frexp(noise.astype(np.float64))[1]
        row = np.maximum(octave - 2, 0)
        fraction = np.where(
            octave < 11, noise << np.maximum(11 - octave, 0), noise >> np.maximum(octave - 11, 0)
        )
        fraction &= 0x3FF
        bent = (self._bend[row] * fraction >> 5) + (self._slope[row] << 5)
        product = (bent * fraction).astype(np.int32).astype(np.int64)
        found = ((product + (1 << 14)) >> 15) + self._first[row]
        wrapped = found.astype(np.int16).astype(np.int64)
        return np.where(noise < 2, self._small[np.minimum(noise, 1)], wrapped)


def shrunk(ratio: Any) -> Any:
    """Return signal-to-noise ratios less 1, with a smooth start; uint32 values as uint64."""
    small = (ratio * ratio & np.uint64(0xFFFFFFFF)) >> np.uint64(
        2 + 2 * _SIGNAL_BITS - _OUTPUT_BITS
    )
    large = (ratio >> np.uint64(_SIGNAL_BITS - _OUTPUT_BITS)) - np.uint64(1 << _OUTPUT_BITS)
    return np.where(ratio < (2 << _SIGNAL_BITS), small, large)
