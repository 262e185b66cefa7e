"""The sampling kernels of ScaleAndTranslate, and their weights along an axis.

Semantics: tensorflow/core/kernels/image/sampling_kernels.h, scale_and_translate_op.cc.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels._support import check_size
from graphmill_plugins.kernels.image._taps import Taps

if TYPE_CHECKING:
    from collections.abc import Callable

_F = np.float32
_SMALLEST_SUM = 1000 * np.finfo(np.float32).tiny


class SamplingKernel(NamedTuple):
    """A function of the distance from a pixel, and its radius."""

    radius: float
    function: Callable[[Any], Any]


def _lanczos(radius: float) -> SamplingKernel:
    def function(x: Any) -> Any:
        angle = x * _F(math.pi)
        safe = np.where(x <= 1e-3, _F(1), angle)
        values = _F(radius) * np.sin(safe) * np.sin(safe / _F(radius)) / (safe * safe)
        return np.where(x > radius, _F(0), np.where(x <= 1e-3, _F(1), values))

    return SamplingKernel(radius, function)


def _gaussian(x: Any) -> Any:
    sigma = _F(0.5)
    return np.where(x >= 1.5, _F(0), np.exp(-x * x / (_F(2) * sigma * sigma)))


def _box(x: Any) -> Any:
    return np.where(x < 0.5, _F(1), np.where(x == 0.5, _F(0.5), _F(0)))


def _triangle(x: Any) -> Any:
    return np.where(x < 1, _F(1) - x, _F(0))


def _keys(x: Any) -> Any:
    far = ((_F(-0.5) * x + _F(2.5)) * x - _F(4)) * x + _F(2)
    near = ((_F(1.5) * x - _F(2.5)) * x) * x + _F(1)
    return np.where(x >= 2, _F(0), np.where(x >= 1, far, near))


def _mitchell(x: Any) -> Any:
    far = ((_F(-7 / 18) * x + _F(2)) * x - _F(10 / 3)) * x + _F(16 / 9)
    near = ((_F(7 / 6) * x - _F(2)) * x) * x + _F(8 / 9)
    return np.where(x >= 2, _F(0), np.where(x >= 1, far, near))


_KERNELS = {
    "lanczos1": _lanczos(1.0),
    "lanczos3": _lanczos(3.0),
    "lanczos5": _lanczos(5.0),
    "gaussian": SamplingKernel(1.5, _gaussian),
    "box": SamplingKernel(1.0, _box),
    "triangle": SamplingKernel(1.0, _triangle),
    "keyscubic": SamplingKernel(2.0, _keys),
    "mitchellcubic": SamplingKernel(2.0, _mitchell),
}


def named(name: str) -> SamplingKernel:
    """Return the kernel with a name, ignoring case.

    Raises:
        InvalidArgumentError: the name is unknown.
    """
    if name.lower() not in _KERNELS:
        raise InvalidArgumentError(
            f"Unrecognized kernel type: {name}; expected one of {', '.join(_KERNELS)}"
        )
    return _KERNELS[name.lower()]


class Axis(NamedTuple):
    """The scale and translation of an axis.

    Attributes:
        size: the number of its pixels.
        new_size: the number of pixels of the result.
        scale: the factor.
        translation: the shift, in pixels of the result.
        antialias: whether the kernel is widened where the axis shrinks.
    """

    size: int
    new_size: int
    scale: Any
    translation: Any
    antialias: bool


def weights(kernel: SamplingKernel, axis: Axis) -> Any:
    """Return the matrix (output, size) that scales and translates an axis, in float32."""
    width, reach, centre = _geometry(kernel, axis)
    check_size((len(centre), axis.size), "the matrix of weights", itemsize=16)  # and temporaries
    first, last = _first(axis, centre - reach), np.floor(centre + reach - _F(0.5))
    last = np.clip(last, 0, axis.size - 1)
    pixels = np.arange(axis.size, dtype=np.float32)
    distance = np.abs((pixels + _F(0.5) - centre[:, None]) * (_F(1) / width))
    is_seen = (pixels >= first[:, None]) & (pixels <= last[:, None])
    is_seen &= _is_inside(axis, centre)[:, None]  # samples outside get no weight
    values = np.where(is_seen, kernel.function(distance), _F(0))
    total = values.sum(axis=1, keepdims=True, dtype=np.float32)
    has_weight = np.abs(total) >= _SMALLEST_SUM
    return np.where(has_weight, values / np.where(has_weight, total, _F(1)), _F(0))


def taps(kernel: SamplingKernel, axis: Axis) -> Taps:
    """Return the inputs that each output reads, those of weight 0 as well."""
    _, reach, centre = _geometry(kernel, axis)
    count = min(2 * math.ceil(reach) + 1, axis.size)
    start = np.where(_is_inside(axis, centre), _first(axis, centre - reach), _F(0))
    inputs = start.astype(np.intp)[:, None] + np.arange(count)
    used = inputs < axis.size
    inputs = np.minimum(inputs, axis.size - 1)
    return Taps(inputs, np.take_along_axis(weights(kernel, axis), inputs, axis=1), used)


def _geometry(kernel: SamplingKernel, axis: Axis) -> tuple[Any, Any, Any]:
    """Return the width of the kernel, its reach, and the position of each output."""
    inverse = _F(1) / _F(axis.scale)
    shift = -inverse * _F(axis.translation)
    width = max(inverse, _F(1)) if axis.antialias else _F(1)
    centre = (np.arange(axis.new_size, dtype=np.float32) + _F(0.5)) * inverse + shift
    return width, _F(kernel.radius) * width, centre


def _first(axis: Axis, start: Any) -> Any:
    return np.clip(np.ceil(start - _F(0.5)), 0, axis.size - 1)


def _is_inside(axis: Axis, centre: Any) -> Any:
    return (centre >= 0) & (centre <= axis.size)
