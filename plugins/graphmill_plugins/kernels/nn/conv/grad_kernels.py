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
    upstream = np.asarray(gradient).astype(wide, copy=False)
    weights = np.asarray(kernel, wide)
    result = numpy_grad.input_gradient(weights, upstream, plan.axes, plan.shape[-1])
    return result.astype(dtype, copy=False)


def _of_filter(x: Value, gradient: Value, plan: ConvPlan) -> Value:
    dtype, wide = gradient.dtype, widen(gradient.dtype)
    image, upstream = (np.asarray(value).astype(wide, copy=False) for value in (x, gradient))
    result = numpy_grad.kernel_gradient(image, upstream, plan.axes, plan.groups)
    return result.astype(dtype, copy=False)


def _of_depthwise_input(kernel: Value, gradient: Value, plan: ConvPlan) -> Value:
    dtype, wide = gradient.dtype, widen(gradient.dtype)
    upstream = np.asarray(gradient).astype(wide, copy=False)
    result = numpy_grad.depthwise_input_gradient(np.asarray(kernel, wide), upstream, *plan.axes)
    return result.astype(dtype, copy=False)


def _of_depthwise_filter(x: Value, gradient: Value, plan: ConvPlan) -> Value:
    dtype, wide = gradient.dtype, widen(gradient.dtype)
    image, upstream = (np.asarray(value).astype(wide, copy=False) for value in (x, gradient))
    rows, cols = plan.axes
    multiplier = plan.kernel[-1]
    result = numpy_grad.depthwise_kernel_gradient(image, upstream, rows, cols, multiplier)
    return result.astype(dtype, copy=False)


KERNELS = conv_gradient_kernels(
    "numpy",
    np,
    of_input=_of_input,
    of_filter=_of_filter,
    of_depthwise_input=_of_depthwise_input,
    of_depthwise_filter=_of_depthwise_filter,
)
