"""Convolution kernels on NumPy; ops, checks and shapes are in `ops` and `plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill_plugins.kernels._support import widen
from graphmill_plugins.kernels.nn.conv import numpy_conv
from graphmill_plugins.kernels.nn.conv.ops import conv_kernels

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Value
    from graphmill_plugins.kernels.nn.conv.plan import ConvPlan


def convolve(x: Value, kernel: Value, plan: ConvPlan) -> Value:
    """Convolve channels-last `x` with `kernel`; sums have a wide dtype."""
    dtype, wide = x.dtype, widen(x.dtype)
    method: Callable[..., Any] = numpy_conv.conv2d if len(plan.axes) == 2 else numpy_conv.conv3d
    x = np.asarray(x).astype(wide, copy=False)
    out = method(x, np.asarray(kernel, wide, order="C"), *plan.axes)
    return out.astype(dtype, copy=False)


def depthwise(x: Value, kernel: Value, plan: ConvPlan) -> Value:
    """Convolve each channel of `x` with its own filters."""
    dtype, wide = x.dtype, widen(x.dtype)
    if 0 in plan.kernel:
        return np.zeros(plan.out, dtype)
    x = np.asarray(x).astype(wide, copy=False)
    out = numpy_conv.depthwise(x, np.asarray(kernel, wide, order="C"), *plan.axes)
    return out.astype(dtype, copy=False)


KERNELS = conv_kernels("numpy", np, convolve=convolve, depthwise=depthwise)
