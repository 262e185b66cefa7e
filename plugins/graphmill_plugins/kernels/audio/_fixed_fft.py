"""Fourier transforms of 16-bit samples in fixed-point arithmetic, as KISS FFT computes them.

Each butterfly halves or quarters its inputs first, so that sums stay in 16 bits. The results are
those of a transform that is divided by its length, with KISS FFT's rounding errors.

Semantics: kiss_fft.c and kiss_fftr.c with FIXED_POINT=16, which TensorFlow's microfrontend uses.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np

_FRACTION_BITS: Final = 15
_ONE: Final = (1 << _FRACTION_BITS) - 1


class _Complex(NamedTuple):
    """Complex fixed-point numbers: two arrays of int64 that hold 16-bit values."""

    real: Any
    imaginary: Any

    def __add__(self, other: _Complex) -> _Complex:  # type: ignore[override]
        return _Complex(
            _wrapped(self.real + other.real), _wrapped(self.imaginary + other.imaginary)
        )

    def __sub__(self, other: _Complex) -> _Complex:
        return _Complex(
            _wrapped(self.real - other.real), _wrapped(self.imaginary - other.imaginary)
        )

    def times(self, other: _Complex) -> _Complex:
        """Return the product, rounded to 15 fraction bits."""
        return _Complex(
            _rounded(self.real * other.real - self.imaginary * other.imaginary),
            _rounded(self.real * other.imaginary + self.imaginary * other.real),
        )

    def divided(self, divisor: int) -> _Complex:
        """Return the numbers times a fixed-point approximation of 1 / divisor."""
        return _Complex(
            _rounded(self.real * (_ONE // divisor)), _rounded(self.imaginary * (_ONE // divisor))
        )

    def part(self, index: Any) -> _Complex:
        """Return the numbers at an index of the last axis."""
        return _Complex(self.real[..., index], self.imaginary[..., index])


def _wrapped(x: Any) -> Any:
    return x.astype(np.int16).astype(np.int64)


def _rounded(x: Any) -> Any:
    return _wrapped((x + (1 << (_FRACTION_BITS - 1))) >> _FRACTION_BITS)


def _unit_circle(phases: Any) -> _Complex:
    """Return the numbers of magnitude 1 with the given phases."""
    return _Complex(
        np.floor(0.5 + _ONE * np.cos(phases)).astype(np.int64),
        np.floor(0.5 + _ONE * np.sin(phases)).astype(np.int64),
    )


def _joined(parts: list[_Complex]) -> _Complex:
    return _Complex(
        np.concatenate([part.real for part in parts], axis=-1),
        np.concatenate([part.imaginary for part in parts], axis=-1),
    )


def _transform(x: _Complex, twiddles: _Complex, stride: int) -> _Complex:
    """Return the transform of the last axis, whose length is a power of two."""
    length = x.real.shape[-1]
    if length == 1:
        return x
    radix = 4 if length % 4 == 0 else 2
    parts = [
        _transform(x.part(slice(start, None, radix)), twiddles, stride * radix).divided(radix)
        for start in range(radix)
    ]
    positions = np.arange(length // radix) * stride
    twiddled = [
        parts[number].times(twiddles.part(positions * number)) for number in range(1, radix)
    ]
    return _joined(_butterfly(parts[0], twiddled))


def _butterfly(first: _Complex, others: list[_Complex]) -> list[_Complex]:
    """Combine two or four transforms: one as it is, the others multiplied by twiddles."""
    if len(others) == 1:
        return [first + others[0], first - others[0]]
    even, odd = first + others[1], others[0] + others[2]
    rest, difference = first - others[1], others[0] - others[2]
    quarter = _Complex(difference.imaginary, -difference.real)
    return [even + odd, rest + quarter, even - odd, rest - quarter]


def real_transform(samples: Any) -> tuple[Any, Any]:
    """Return the transform of real 16-bit samples, divided by their number.

    Args:
        samples: int16 [..., length]; the length is a power of two, and at least 4.

    Returns:
        The real and the imaginary parts of the frequencies from 0 to length / 2, as int64.
    """
    half = samples.shape[-1] // 2
    pairs = _Complex(samples[..., ::2].astype(np.int64), samples[..., 1::2].astype(np.int64))
    twiddles = _unit_circle(-2.0 * math.pi * np.arange(half) / half)
    found = _transform(pairs, twiddles, 1)
    index = np.arange(1, half // 2 + 1)
    high = found.part(half - index)
    mirrored = _Complex(high.real, _wrapped(-high.imaginary)).divided(2)
    low = found.part(index).divided(2)
    first = found.part(0).divided(2)
    total, difference = low + mirrored, low - mirrored
    twiddled = difference.times(_unit_circle(-math.pi * (index / half + 0.5)))
    shape = (*samples.shape[:-1], half + 1)
    real, imaginary = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    real[..., 0] = _wrapped(first.real + first.imaginary)
    real[..., half] = _wrapped(first.real - first.imaginary)
    real[..., index] = (total.real + twiddled.real) >> 1
    imaginary[..., index] = (total.imaginary + twiddled.imaginary) >> 1
    real[..., half - index] = (total.real - twiddled.real) >> 1
    imaginary[..., half - index] = (twiddled.imaginary - total.imaginary) >> 1
    return real, imaginary
