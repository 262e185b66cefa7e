"""Integer convolutions: the sums over the windows of channels-last tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphmill_plugins.kernels._quantize import exact_product
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
    total = xp.zeros((int(np.prod(shape[:-1])), shape[-1]), np.int32)
    for tap in taps_of(xp, x, axes):
        rows = tap.value.reshape(-1, w.shape[2]) if total.size else total
        total = total + exact_product(xp, rows, w[tap.place]) if total.size else total
    return total.reshape(shape)


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
    total = xp.zeros((*shape[:-1], *w.shape[2:]), np.int32)
    for tap in taps_of(xp, x, axes):
        total = total + tap.value[..., None] * w[tap.place]
    return total.reshape(shape)
