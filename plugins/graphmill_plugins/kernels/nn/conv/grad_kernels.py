"""Convolution gradient kernels on NumPy; ops, checks and shapes are in `ops`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphmill_plugins.kernels._support import widen
from graphmill_plugins.kernels.nn.conv import numpy_grad
from graphmill_plugins.kernels.nn.conv.ops import conv_gradient_kernels

if TYPE_CHECKING:
    from graphmill.spi import Value
    from graphmill_plugins.kernels.nn.conv.plan import ConvPlan


def _of_input(kernel: Value, gradient: Value, plan: ConvPlan) -> Value:
    dtype, wide = gradient.dtype, widen(gradient.dtype)
    given = np.asarray(gradient).astype(wide, copy=False)
    weights = np.asarray(kernel, wide)
    found = numpy_grad.input_gradient(weights, given, plan.axes, plan.shape[-1])
    return found.astype(dtype, copy=False)


def _of_filter(x: Value, gradient: Value, plan: ConvPlan) -> Value:
    dtype, wide = gradient.dtype, widen(gradient.dtype)
    image, given = (np.asarray(value).astype(wide, copy=False) for value in (x, gradient))
    found = numpy_grad.kernel_gradient(image, given, plan.axes, plan.groups)
    return found.astype(dtype, copy=False)


def _of_depthwise_input(kernel: Value, gradient: Value, plan: ConvPlan) -> Value:
    dtype, wide = gradient.dtype, widen(gradient.dtype)
    given = np.asarray(gradient).astype(wide, copy=False)
    found = numpy_grad.depthwise_input_gradient(np.asarray(kernel, wide), given, *plan.axes)
    return found.astype(dtype, copy=False)


def _of_depthwise_filter(x: Value, gradient: Value, plan: ConvPlan) -> Value:
    dtype, wide = gradient.dtype, widen(gradient.dtype)
    image, given = (np.asarray(value).astype(wide, copy=False) for value in (x, gradient))
    rows, cols = plan.axes
    multiplier = plan.kernel[-1]
    found = numpy_grad.depthwise_kernel_gradient(image, given, rows, cols, multiplier)
    return found.astype(dtype, copy=False)


KERNELS = conv_gradient_kernels(
    "numpy",
    np,
    of_input=_of_input,
    of_filter=_of_filter,
    of_depthwise_input=_of_depthwise_input,
    of_depthwise_filter=_of_depthwise_filter,
)
