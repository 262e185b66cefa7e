"""Fourier transforms of 16-bit samples in fixed-point arithmetic, as KISS FFT computes them.

Each butterfly halves or quarters its inputs first, so that sums stay in 16 bits. The results are
those of a transform that is divided by its length, with KISS FFT's rounding errors.

Complex numbers are int32 arrays with a first axis for the real and the imaginary part; each holds
the lowest 16 bits of a number. Products may exceed 32 bits: only their bits 15 to 30 are used.

Semantics: kiss_fft.c and kiss_fftr.c with FIXED_POINT=16, which TensorFlow's microfrontend uses.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np

_FRACTION_BITS: Final = 15
_ONE: Final = np.int32((1 << _FRACTION_BITS) - 1)
_HALF: Final = np.int32(1 << (_FRACTION_BITS - 1))


def _wrapped(x: Any) -> Any:
    """Return the lowest 16 bits as signed numbers."""
    return x.astype(np.int16).astype(np.int32)


def _rounded(x: Any) -> Any:
    """Remove the fraction bits of a product, in place."""
    x += _HALF
    x >>= _FRACTION_BITS
    return x


def _divided(x: Any, divisor: int) -> Any:
    """Return 16-bit numbers times a fixed-point approximation of 1 / divisor."""
    return _rounded(x * (_ONE // np.int32(divisor)))


def _product(x: Any, y: Any) -> Any:
    """Return the complex product, rounded; its real and imaginary part may exceed 16 bits."""
    by_real, by_imaginary = x * y[0], x * y[1]
    by_real[0] -= by_imaginary[1]
    by_real[1] += by_imaginary[0]
    return _rounded(by_real)


def _unit_circle(phases: Any) -> Any:
    """Return the complex numbers of magnitude 1 with the given phases."""
    return np.floor(0.5 + _ONE * np.stack([np.cos(phases), np.sin(phases)])).astype(np.int32)


class _Stage(NamedTuple):
    """A step that joins groups of two or four transforms of a length to longer ones."""

    length: int
    radix: int
    twiddles: Any  # [2, radix - 1, length]

    def joined(self, x: Any) -> Any:
        """Return the joined transforms of complex numbers [2, ..., samples]."""
        parts = _divided(x.reshape(*x.shape[:-1], -1, self.radix, self.length), self.radix)
        twiddles = self.twiddles.reshape(2, *[1] * (parts.ndim - 3), self.radix - 1, self.length)
        first, others = parts[..., 0, :], _product(parts[..., 1:, :], twiddles)
        out = np.empty(parts.shape, np.int16)
        _butterfly(first, others, out)
        return out.reshape(x.shape).astype(np.int32)


def _butterfly(first: Any, others: Any, out: Any) -> None:
    """Store the lowest 16 bits of what two or four transforms become when they are joined."""
    if others.shape[-2] == 1:
        np.add(first, others[..., 0, :], out=out[..., 0, :], casting="unsafe")
        np.subtract(first, others[..., 0, :], out=out[..., 1, :], casting="unsafe")
        return
    even, rest = first + others[..., 1, :], first - others[..., 1, :]
    odd, difference = others[..., 0, :] + others[..., 2, :], others[..., 0, :] - others[..., 2, :]
    np.add(even, odd, out=out[..., 0, :], casting="unsafe")
    np.subtract(even, odd, out=out[..., 2, :], casting="unsafe")
    quarter = np.stack([difference[1], -difference[0]])
    np.add(rest, quarter, out=out[..., 1, :], casting="unsafe")
    np.subtract(rest, quarter, out=out[..., 3, :], casting="unsafe")


def _stages(length: int) -> tuple[Any, list[_Stage]]:
    """Return the order in which samples are read, and the stages of a transform."""
    circle = _unit_circle(-2.0 * math.pi * np.arange(length) / length)
    order, stages, stride = np.zeros(1, np.int64), [], 1
    while stride < length:
        rest = length // stride
        radix = 4 if rest % 4 == 0 else 2
        part = rest // radix
        turns = np.arange(1, radix)[:, None] * np.arange(part) * stride
        stages.append(_Stage(part, radix, circle[:, turns]))
        order = (order[:, None] + np.arange(radix) * stride).reshape(-1)
        stride *= radix
    return order, stages[::-1]


class RealTransform:
    """The transform of real 16-bit samples, divided by their number.

    Args:
        length: the number of samples; a power of two, and at least 4.
    """

    def __init__(self, length: int) -> None:
        self._half = half = length // 2
        self._order, self._stages = _stages(half)
        self._low = np.arange(1, half // 2 + 1)
        self._circle = _unit_circle(-math.pi * (self._low / half + 0.5))

    def __call__(self, samples: Any) -> Any:
        """Return the transforms of int16 [frames, length].

        Returns:
            int32 [2, frames, length / 2 + 1]: the real and the imaginary parts of the frequencies.
        """
        pairs = np.stack([samples[:, ::2], samples[:, 1::2]])
        found = pairs[..., self._order].astype(np.int32)
        for stage in self._stages:
            found = stage.joined(found)
        return self._of_pairs(found)

    def _of_pairs(self, found: Any) -> Any:
        """Return the transform of samples; `found` is the one of pairs as complex numbers."""
        half, low = self._half, self._low
        conjugate = np.stack([found[0][:, half - low], _wrapped(-found[1][:, half - low])])
        ahead, mirrored = _divided(found[..., low], 2), _divided(conjugate, 2)
        total, difference = _wrapped(ahead + mirrored), _wrapped(ahead - mirrored)
        twiddled = _wrapped(_product(difference, self._circle[:, None]))
        first = _divided(found[..., 0], 2)
        out = np.zeros((*found.shape[:-1], half + 1), np.int32)
        out[0, :, 0], out[0, :, half] = _wrapped(first[0] + first[1]), _wrapped(first[0] - first[1])
        out[..., low] = (total + twiddled) >> 1
        out[0][:, half - low] = (total[0] - twiddled[0]) >> 1
        out[1][:, half - low] = (twiddled[1] - total[1]) >> 1
        return out
