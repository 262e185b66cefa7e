"""Gradients of complex Fourier transforms; JAX differentiates the real transforms.

Semantics: tensorflow/python/ops/signal/fft_ops.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.ops import math, signal
from graphmill.spi.gradients import GradientTable
from graphmill_plugins.gradients._support import as_dense

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi.gradients import ForwardOp, Gradient
    from graphmill.spi.graphs import Tensor

    Transform = Callable[[Tensor], Tensor]

table = GradientTable()


def _size(op: ForwardOp, rank: int) -> Tensor:
    """Return the number of elements in one transform."""
    count = math.prod(op.shape(op.inputs[0])[-rank:], 0)
    return math.cast(count, DstT=op.inputs[0].dtype.base_dtype)


def _of_fft(inverse: Transform, rank: int) -> Callable[[ForwardOp, Gradient], Tensor]:
    return lambda op, dy: inverse(as_dense(dy)) * _size(op, rank)


def _of_ifft(forward: Transform, rank: int) -> Callable[[ForwardOp, Gradient], Tensor]:
    return lambda op, dy: forward(as_dense(dy)) / _size(op, rank)


table.add("FFT", function=_of_fft(signal.ifft, 1))
table.add("FFT2D", function=_of_fft(signal.ifft2d, 2))
table.add("FFT3D", function=_of_fft(signal.ifft3d, 3))
table.add("IFFT", function=_of_ifft(signal.fft, 1))
table.add("IFFT2D", function=_of_ifft(signal.fft2d, 2))
table.add("IFFT3D", function=_of_ifft(signal.fft3d, 3))
