"""Integer convolutions: the sums over the windows of channels-last tensors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from graphmill_plugins.kernels._matmul import matmul_of
from graphmill_plugins.kernels._quantize import exact_dtype
from graphmill_plugins.kernels._support import check_size
from graphmill_plugins.kernels.nn.window_taps import taps_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import ArrayNamespace, Value
    from graphmill_plugins.kernels.nn.window import Axis


def convolution_sums(xp: ArrayNamespace, x: Value, w: Value, axes: Sequence[Axis]) -> Value:
    """Convolve, exactly in int32.

    Args:
        xp: the array namespace.
        x: int32 values [batch, height, width, input channels].
        w: int32 weights [height, width, input channels, output channels].
        axes: the windows.
    """
    shape = (x.shape[0], *(axis.out for axis in axes), w.shape[3])
    check_size(shape, "the convolution", itemsize=4)
    total = xp.zeros(shape, np.int32)
    dtype = exact_dtype(xp, x, w, w.shape[2])
    multiply = matmul_of(xp)
    x, w = x.astype(dtype), w.astype(dtype)
    for tap in taps_of(xp, x, axes):
        rows = tap.value.reshape(math.prod(total.shape[:-1]), w.shape[2])
        total = total + multiply(rows, w[tap.position]).astype(np.int32).reshape(total.shape)
    return total


def depthwise_sums(xp: ArrayNamespace, x: Value, w: Value, axes: Sequence[Axis]) -> Value:
    """Convolve each channel with its own filters, exactly in int32.

    Args:
        xp: the array namespace.
        x: int32 values [batch, height, width, channels].
        w: int32 weights [height, width, channels, filters of a channel].
        axes: the windows.

    Returns:
        The sums; output channels are ordered by input channel, then by filter.
    """
    shape = (x.shape[0], *(axis.out for axis in axes), w.shape[2] * w.shape[3])
    check_size(shape, "the convolution", itemsize=4)
    total = xp.zeros((*shape[:-1], *w.shape[2:]), np.int32)
    for tap in taps_of(xp, x, axes):
        total = total + tap.value[..., None] * w[tap.position]
    return total.reshape(shape)
