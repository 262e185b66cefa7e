"""Quantized layers: convolutions, products, pooling, relus, concatenation.

Semantics: tensorflow/core/kernels/quantized_conv_ops.cc, quantized_matmul_op.cc,
quantized_bias_add_op.cc, quantized_concat_op.cc, quantized_pooling_ops.cc,
quantized_activation_ops.cc, quantized_reshape_op.cc. Each op takes the ranges of its inputs and
returns the range of its output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill.spi import kernel
from graphmill_plugins.kernels._quantize import (
    centred,
    check_ends,
    exact_product,
    first_of,
    from_float,
    from_floats,
    limits,
    product_range,
    requantized,
    single,
    sole,
    to_floats,
    used_range,
)
from graphmill_plugins.kernels._support import checked_axis, scalar_int, shape_text
from graphmill_plugins.kernels.array.shape import reshape
from graphmill_plugins.kernels.nn.pool.plan import lowest, pool_windows
from graphmill_plugins.kernels.nn.window import make_windows
from graphmill_plugins.kernels.nn.window_taps import taps_of
from graphmill_plugins.kernels.quantized._sums import convolution_sums

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import ArrayNamespace, Value
    from graphmill_plugins.kernels._quantize import Ranged
    from graphmill_plugins.kernels.nn.pool.plan import PoolPlan

_F = np.float32
_SMALL = (dtypes.quint8, dtypes.qint8)
_WIDE = (dtypes.qint32,)


@kernel(
    "QuantizedConv2D",
    types={"Tinput": (dtypes.quint8,), "Tfilter": (dtypes.quint8,), "out_type": _WIDE},
    expensive=True,
)
def quantized_conv_2d(
    xp: ArrayNamespace,
    x: Value,
    kernel_: Value,
    *ranges: Value,
    strides: tuple[int, ...],
    padding: str,
    dilations: tuple[int, ...],
) -> Ranged:
    """Convolve; the sums are exact in int32."""
    windows = make_windows("QuantizedConv2D", strides=strides, padding=padding, data_format="NHWC")
    if set(dilations) != {1} or len(dilations) != 4:
        raise InvalidArgumentError(
            f"QuantizedConv2D supports no dilation, got dilations={list(dilations)}"
        )
    if x.ndim != 4 or kernel_.ndim != 4 or x.shape[3] != kernel_.shape[2]:
        raise InvalidArgumentError(
            "input and filter must be 4-dimensional and have the same depth, got "
            f"{shape_text(x.shape)} and {shape_text(kernel_.shape)}"
        )
    ends = [sole("a range", value) for value in ranges]
    axes = windows.axes(x.shape[1:3], kernel_.shape[:2])
    numbers = centred(xp, x, *ends[:2])
    weights = centred(xp, kernel_, *ends[2:])
    total = convolution_sums(xp, numbers, weights, axes)
    return (total, *product_range(x, kernel_, ends))


@kernel(
    "QuantizedMatMul",
    types={"T1": (dtypes.quint8,), "T2": (dtypes.quint8,), "Toutput": _WIDE},
    expensive=True,
)
def quantized_mat_mul(
    xp: ArrayNamespace,
    a: Value,
    b: Value,
    *ranges: Value,
    transpose_a: bool,
    transpose_b: bool,
) -> Ranged:
    """Multiply two matrices; the sums are exact in int32."""
    if a.ndim != 2 or b.ndim != 2:
        raise InvalidArgumentError(
            f"a and b must be matrices, got {shape_text(a.shape)} and {shape_text(b.shape)}"
        )
    ends = [sole("min_a", ranges[0]), *(first_of("a range", value) for value in ranges[1:])]
    if xp is np:
        check_ends("a", *ends[:2])
        check_ends("b", *ends[2:])
    left = centred(xp, a.T if transpose_a else a, *ends[:2])
    right = centred(xp, b.T if transpose_b else b, *ends[2:])
    if left.shape[1] != right.shape[0]:
        raise InvalidArgumentError(
            f"Matrix size-incompatible: In[0]: {shape_text(a.shape)}, In[1]: {shape_text(b.shape)}"
        )
    return (exact_product(xp, left, right), *product_range(a, b, ends))


def _sum_range(xp: ArrayNamespace, ends: Sequence[Value]) -> tuple[Value, Value]:
    """Return the range for sums of values from two ranges: 2¹⁷ times the largest magnitude."""
    abs_max = xp.maximum(xp.maximum(ends[1], -ends[0]), xp.maximum(ends[3], -ends[2])) * _F(1 << 17)
    return -abs_max, abs_max


@kernel("QuantizedBiasAdd", types={"T1": _SMALL, "T2": _SMALL, "out_type": _WIDE})
def quantized_bias_add(
    xp: ArrayNamespace, x: Value, bias: Value, *ranges: Value, out_type: np.dtype[Any]
) -> Ranged:
    """Add a vector over the last axis."""
    if x.ndim < 2 or bias.ndim != 1 or bias.shape != x.shape[-1:]:
        raise InvalidArgumentError(
            "Must provide as many biases as the last dimension of the input tensor: "
            f"{shape_text(bias.shape)} vs. {shape_text(x.shape)}"
        )
    ends = [sole("a range", value) for value in ranges]
    low, high = _sum_range(xp, ends)
    zero = from_float(xp, xp.zeros_like(low), low, high, out_type)
    parts = [
        from_floats(xp, to_floats(xp, value, first, last), low, high, out_type)
        for value, first, last in ((x, *ends[:2]), (bias, *ends[2:]))
    ]
    return parts[0] + parts[1] + zero, low, high


def _concatenated(
    xp: ArrayNamespace,
    axis: int,
    values: Sequence[Value],
    ranges: Sequence[tuple[Value, Value]],
    low: Value,
    high: Value,
) -> Ranged:
    """Concatenate values of several ranges, requantized to the range from `low` to `high`.

    Raises:
        InvalidArgumentError: the shapes differ in another axis.
    """
    shapes = [(*value.shape[:axis], -1, *value.shape[axis + 1 :]) for value in values]
    if any(shape != shapes[0] for shape in shapes):
        raise InvalidArgumentError(
            "Dimensions of inputs should match, except for concat_dim: "
            f"{[list(value.shape) for value in values]}"
        )
    parts = []
    for value, (first, last) in zip(values, ranges, strict=True):
        moved = from_floats(xp, to_floats(xp, value, first, last), low, high, value.dtype)
        parts.append(xp.where((first == low) & (last == high), value, moved))
    return xp.concatenate(parts, axis=axis), low, high


def _symmetric(xp: ArrayNamespace, low: Value, high: Value) -> tuple[Value, Value]:
    """Return the smallest range around 0 that includes a range."""
    abs_max = xp.maximum(xp.abs(low), xp.abs(high))
    return -abs_max, abs_max


def _ranges(mins: Sequence[Value], maxes: Sequence[Value]) -> list[tuple[Value, Value]]:
    """Return the ends of each input's range, which must be scalars."""
    pairs = zip(mins, maxes, strict=True)
    return [(sole("input_mins", low), sole("input_maxes", high)) for low, high in pairs]


@kernel("QuantizedConcat", types={"T": (dtypes.qint32, dtypes.quint8)}, static=("concat_dim",))
def quantized_concat(
    xp: ArrayNamespace,
    concat_dim: Value,
    values: list[Value],
    input_mins: list[Value],
    input_maxes: list[Value],
) -> Ranged:
    """Concatenate values of several ranges, requantized to a range that includes all and 0."""
    ranges = _ranges(input_mins, input_maxes)
    axis = scalar_int("concat_dim", concat_dim)
    if not 0 <= axis < values[0].ndim:
        raise InvalidArgumentError(
            f"Expected concatenating dimensions in the range [0, {values[0].ndim}), but got {axis}"
        )
    low = xp.minimum(_F(0), xp.min(xp.stack([low for low, _ in ranges])))
    high = xp.max(xp.stack([high for _, high in ranges]))
    if limits(values[0].dtype).lowest:
        low, high = _symmetric(xp, low, high)
    return _concatenated(xp, axis, values, ranges, low, high)


@kernel("QuantizedConcatV2", types={"T": _SMALL}, static=("axis",))
def quantized_concat_v2(
    xp: ArrayNamespace,
    values: list[Value],
    axis: Value,
    input_mins: list[Value],
    input_maxes: list[Value],
) -> Ranged:
    """Concatenate values, requantized to a common range that is symmetric or starts at 0.

    The range of 4-dimensional inputs that all have the same one does not change.
    """
    ranges = _ranges(input_mins, input_maxes)
    axis_index = checked_axis(scalar_int("axis", axis), values[0].ndim)
    lows, highs = (xp.stack(ends) for ends in zip(*ranges, strict=True))
    low, high = xp.min(lows), xp.max(highs)
    is_common = xp.all((lows == low) & (highs == high)) & (values[0].ndim == 4)
    is_signed = limits(values[0].dtype).lowest
    new_low, new_high = _symmetric(xp, low, high) if is_signed else (xp.zeros_like(low), high)
    low, high = xp.where(is_common, low, new_low), xp.where(is_common, high, new_high)
    return _concatenated(xp, axis_index, values, ranges, low, high)


def _pooled(
    xp: ArrayNamespace,
    op: str,
    x: Value,
    ends: Sequence[Value],
    plan: PoolPlan,
) -> Ranged:
    """Take the maximum, or the mean rounded towards zero, of each window."""
    is_max = op != "QuantizedAvgPool"
    empty = int(lowest(x.dtype)) if is_max else 0
    total = xp.full(plan.out, np.int32(empty))
    if 0 in plan.out:  # masks of the windows may be large nevertheless
        return total.astype(x.dtype), *(sole("a range", end) for end in ends)
    count = np.zeros(plan.out, np.int32)
    for tap in taps_of(xp, x.astype(np.int32), plan.axes):
        inside = np.bool_(True) if tap.is_inside is None else tap.is_inside
        value = xp.where(inside, tap.value, np.int32(empty))
        total = xp.maximum(total, value) if is_max else total + value
        count = count + inside
    if not is_max:
        total = xp.trunc(total / count)
    return total.astype(x.dtype), sole("min_input", ends[0]), sole("max_input", ends[1])


@kernel("QuantizedMaxPool", types={"T": _SMALL}, expensive=True)
def quantized_max_pool(
    xp: ArrayNamespace,
    x: Value,
    min_input: Value,
    max_input: Value,
    ksize: tuple[int, ...],
    strides: tuple[int, ...],
    padding: str,
) -> Ranged:
    """Take the maximum of each window."""
    plan = pool_windows("QuantizedMaxPool", ksize, strides, padding, "NHWC").plan(x.shape)
    return _pooled(xp, "QuantizedMaxPool", x, (min_input, max_input), plan)


@kernel("_QuantizedMaxPool3D", types={"T": _SMALL}, expensive=True)
def quantized_max_pool_3d(
    xp: ArrayNamespace,
    input: Value,  # noqa: A002 - the name of the op's input
    min_input: Value,
    max_input: Value,
    ksize: tuple[int, ...],
    strides: tuple[int, ...],
    padding: str,
    data_format: str,
) -> Ranged:
    """Take the maximum of each window of volumes.

    Raises:
        UnimplementedError: the channels come first; TensorFlow reads such windows as NDHWC.
    """
    name = "_QuantizedMaxPool3D"
    if data_format != "NDHWC":
        raise UnimplementedError(f"{name} supports NDHWC only, got data_format={data_format}")
    windows = pool_windows(name, ksize, strides, padding, data_format, rank=5)
    plan = windows.gradient_plan(input.shape)  # oneDNN's windows start at the first element
    return _pooled(xp, name, input, (min_input, max_input), plan)


@kernel("QuantizedAvgPool", types={"T": _SMALL}, expensive=True)
def quantized_avg_pool(
    xp: ArrayNamespace,
    x: Value,
    min_input: Value,
    max_input: Value,
    ksize: tuple[int, ...],
    strides: tuple[int, ...],
    padding: str,
) -> Ranged:
    """Take the mean of each window."""
    plan = pool_windows("QuantizedAvgPool", ksize, strides, padding, "NHWC").plan(x.shape)
    return _pooled(xp, "QuantizedAvgPool", x, (min_input, max_input), plan)


@kernel("QuantizedRelu", types={"Tinput": (dtypes.quint8, dtypes.qint32)})
def quantized_relu(
    xp: ArrayNamespace, x: Value, min_features: Value, max_features: Value
) -> Ranged:
    """Clamp values below zero."""
    low, high = sole("min_features", min_features), sole("max_features", max_features)
    zero = from_float(xp, xp.zeros_like(low), low, high, x.dtype)
    return xp.maximum(x, zero).astype(x.dtype), low, high


@kernel("QuantizedRelu6", types={"Tinput": (dtypes.quint8, dtypes.qint32)})
def quantized_relu_6(
    xp: ArrayNamespace, x: Value, min_features: Value, max_features: Value
) -> Ranged:
    """Clamp values to the range from zero to six."""
    low, high = sole("min_features", min_features), sole("max_features", max_features)
    zero, six = (from_float(xp, xp.full_like(low, number), low, high, x.dtype) for number in (0, 6))
    return xp.minimum(xp.maximum(x, zero), six).astype(x.dtype), low, high


@kernel("QuantizedReshape", static=("shape",))
def quantized_reshape(
    xp: ArrayNamespace,
    tensor: Value,
    shape: Value,
    input_min: Value,
    input_max: Value,
    T: np.dtype[Any],
) -> Ranged:
    """Reshape; the range does not change."""
    low, high = single("input_min", input_min), single("input_max", input_max)
    return reshape(xp, T)(tensor, shape), low, high


@kernel("QuantizeDownAndShrinkRange", types={"Tinput": _WIDE, "out_type": (dtypes.quint8,)})
def quantize_down_and_shrink_range(
    xp: ArrayNamespace, x: Value, input_min: Value, input_max: Value, out_type: np.dtype[Any]
) -> Ranged:
    """Convert values to a smaller type, with the range that they actually use."""
    low, high = sole("input_min", input_min), sole("input_max", input_max)
    new_low, new_high = used_range(xp, x, low, high)
    return requantized(xp, x, (low, high, new_low, new_high), out_type), new_low, new_high
