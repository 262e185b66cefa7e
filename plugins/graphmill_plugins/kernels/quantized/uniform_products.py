"""Products and convolutions of uniformly quantized tensors.

The hybrid forms take floats and quantize them to 8 bits, each row or image in its own range.

Semantics: tensorflow/core/kernels/uniform_quant_ops/uniform_quantized_dot_ops.cc,
uniform_quantized_convolution_ops.cc, tensorflow/core/util/quantization/uniform_quant_ops_params.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._quantize import Limits, exact_dtype, exact_product
from graphmill_plugins.kernels._strings import encode
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.quantized._affine import (
    Affine,
    affine,
    affine_of_shape,
    centred_at,
    check_positive,
    dynamically_quantized,
    rescaled,
)
from graphmill_plugins.kernels.xla.conv import Window, convolved, layouts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import ArrayNamespace, Value

_F, _D = np.float32, np.float64
_MESSAGE = "UniformQuantizedConvolutionDimensionNumbersAttr"
_FIELDS = {"lhs": (1, 2, 3), "rhs": (5, 4, 6), "output": (7, 8, 9)}
_QUANTIZED = {"Tin": (dtypes.qint8,), "Tout": (dtypes.qint32,)}
_HYBRID = {"Tlhs": (dtypes.float32,), "Trhs": (dtypes.qint8,), "Tout": (dtypes.float32,)}


def _check_lhs_axis(axis: int) -> None:
    if axis != -1:
        raise InvalidArgumentError(f"lhs_quantization_axis must be -1 (per-tensor), got {axis}")


def _check_axis(name: str, axis: int, channels: int) -> None:
    """Raise InvalidArgumentError unless an axis is -1 or that of the output channels."""
    if axis not in (-1, channels):
        raise InvalidArgumentError(
            f"{name}_quantization_axis must be -1 (per-tensor) or {channels} (per-channel), got "
            f"{axis}"
        )


def _check_matrices(lhs: Value, rhs: Value) -> None:
    if lhs.ndim != 2 or rhs.ndim != 2 or lhs.shape[1] != rhs.shape[0]:
        raise InvalidArgumentError(
            "lhs and rhs must be matrices that can be multiplied, got shapes "
            f"{shape_text(lhs.shape)} and {shape_text(rhs.shape)}"
        )


def _check_scales(xp: ArrayNamespace, lhs: Value, rhs: Value, output: Value) -> None:
    for name, scales in (("lhs", lhs), ("rhs", rhs), ("output", output)):
        check_positive(xp, name, scales)
    if output.ndim > rhs.ndim:
        raise InvalidArgumentError(
            "If rhs is per-tensor quantized, output must be also per-tensor quantized, got output "
            f"scales of shape {shape_text(output.shape)}"
        )


@kernel("UniformQuantizedDot", types=_QUANTIZED, expensive=True)
def uniform_quantized_dot(
    xp: ArrayNamespace,
    lhs: Value,
    rhs: Value,
    *parameters: Value,
    lhs_quantization_axis: int,
    rhs_quantization_axis: int,
    output_quantization_axis: int,
    output_quantization_min_val: int,
    output_quantization_max_val: int,
) -> Value:
    """Multiply two matrices; the sums are exact in int32 before they are scaled."""
    _check_lhs_axis(lhs_quantization_axis)
    _check_axis("rhs", rhs_quantization_axis, 1)
    _check_axis("output", output_quantization_axis, 1)
    _check_matrices(lhs, rhs)
    _check_scales(xp, *parameters[::2])
    left = affine("lhs", lhs, parameters[0], parameters[1], -1)
    right = _by_rank("rhs", rhs.shape, *parameters[2:4])
    target = _by_rank("output", (len(lhs), rhs.shape[1]), *parameters[4:])
    total = exact_product(
        xp, centred_at(xp, lhs, left.zero_point), centred_at(xp, rhs, right.zero_point)
    )
    multiplier = left.scale.astype(_D) * right.scale / target.scale
    bounds = Limits(output_quantization_min_val, output_quantization_max_val)
    return rescaled(xp, total, multiplier, target.zero_point, bounds)


def _by_rank(name: str, shape: tuple[int, ...], scales: Value, zero_points: Value) -> Affine:
    """Return the parameters of a matrix, one per column unless they are scalars."""
    return affine_of_shape(name, shape, scales, zero_points, 1 if scales.ndim else -1)


@kernel("UniformQuantizedDotHybrid", types=_HYBRID, expensive=True)
def uniform_quantized_dot_hybrid(
    xp: ArrayNamespace,
    lhs: Value,
    rhs: Value,
    rhs_scales: Value,
    rhs_zero_points: Value,
    rhs_quantization_axis: int,
) -> Value:
    """Multiply a matrix of floats, quantized row by row, and a quantized matrix."""
    _check_axis("rhs", rhs_quantization_axis, 1)
    _check_matrices(lhs, rhs)
    right = _by_rank("rhs", rhs.shape, rhs_scales, rhs_zero_points)
    check_positive(xp, "rhs", rhs_scales)
    rows, scale = dynamically_quantized(xp, lhs)
    total = exact_product(xp, rows, centred_at(xp, rhs, right.zero_point))
    return total.astype(_F) * scale * right.scale


class _Convolution(NamedTuple):
    """A convolution whose layouts, window and groups fit its operands.

    Attributes:
        lhs, rhs: the operands, as [batch, feature, …] and [output, feature, …].
        layouts: for each tensor, its dimensions in that order.
        window: the strides, padding and dilations.
        groups: the number of groups of features.
        batches: the number of groups of batches.
    """

    lhs: Value
    rhs: Value
    layouts: dict[str, tuple[int, ...]]
    window: Window
    groups: int
    batches: int

    def channel_shape(self) -> tuple[int, ...]:
        """Return the shape in which a vector of output features broadcasts over the result."""
        ones = (1,) * (self.rhs.ndim - 2)
        return (-1, *ones)

    def run(self, xp: ArrayNamespace, lhs: Value, rhs: Value) -> Value:
        """Convolve int32 operands whose zero points are 0."""
        dtype = exact_dtype(xp, lhs, rhs, rhs[:1].size)
        parts = lhs.astype(dtype), rhs.astype(dtype)
        return convolved(xp, *parts, self.window, self.groups, self.batches).astype(np.int32)

    def in_layout(self, xp: ArrayNamespace, result: Value) -> Value:
        """Return a result of `run` in the layout of the op's output."""
        return xp.transpose(result, np.argsort(self.layouts["output"]))


def _convolution(
    xp: ArrayNamespace,
    lhs: Value,
    rhs: Value,
    *,
    window_strides: Sequence[int],
    padding: str,
    explicit_padding: Sequence[int],
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    batch_group_count: int,
    feature_group_count: int,
    dimension_numbers: str,
) -> _Convolution:
    """Check the operands and attrs of a convolution.

    Raises:
        InvalidArgumentError: they do not fit each other.
    """
    if lhs.ndim != rhs.ndim or lhs.ndim < 3:
        raise InvalidArgumentError(
            "lhs and rhs must have the same rank of at least 3, got shapes "
            f"{shape_text(lhs.shape)} and {shape_text(rhs.shape)}"
        )
    layouts = dict.fromkeys(_FIELDS, tuple(range(lhs.ndim)))
    if dimension_numbers:
        layouts = layouts_of(encode(dimension_numbers), lhs.ndim, _FIELDS, _MESSAGE)
    x, w = xp.transpose(lhs, layouts["lhs"]), xp.transpose(rhs, layouts["rhs"])
    rank = lhs.ndim - 2
    numbers = [
        tuple(values) or (1,) * rank for values in (window_strides, lhs_dilation, rhs_dilation)
    ]
    if any(len(values) != rank or min(values) < 1 for values in numbers):
        raise InvalidArgumentError(
            f"window_strides and dilations must be {rank} positive numbers each, got "
            f"{[list(values) for values in numbers]}"
        )
    sizes = [(n - 1) * by + 1 if n else 0 for n, by in zip(x.shape[2:], numbers[1], strict=True)]
    spans = [(n - 1) * by + 1 if n else 0 for n, by in zip(w.shape[2:], numbers[2], strict=True)]
    pads = _pads(padding, explicit_padding, sizes, spans, numbers[0])
    for size, span, pair, stride in zip(sizes, spans, pads, numbers[0], strict=True):
        if size + sum(pair) - span + stride < 0:
            raise InvalidArgumentError(
                f"a window of {span} does not fit an input of {size} with padding {pair}"
            )
    window = Window(numbers[0], pads, numbers[1], numbers[2])
    return _Convolution(x, w, layouts, window, feature_group_count, batch_group_count)


def _pads(
    padding: str,
    explicit: Sequence[int],
    sizes: Sequence[int],
    spans: Sequence[int],
    strides: Sequence[int],
) -> tuple[tuple[int, int], ...]:
    """Return the padding before and after each spatial dimension."""
    if padding not in ("SAME", "VALID", "EXPLICIT"):
        raise InvalidArgumentError(f"padding must be one of EXPLICIT, SAME, VALID, got {padding!r}")
    expected = 2 * len(sizes) if padding == "EXPLICIT" else 0
    if len(explicit) != expected or min(explicit, default=0) < 0:
        raise InvalidArgumentError(
            f"explicit_padding must have {expected} numbers >= 0 for padding {padding!r}, got "
            f"{list(explicit)}"
        )
    if padding == "EXPLICIT":
        return tuple(zip(explicit[::2], explicit[1::2], strict=True))
    if padding == "VALID":
        return ((0, 0),) * len(sizes)
    pads = []
    for size, span, stride in zip(sizes, spans, strides, strict=True):
        total = max((-(-size // stride) - 1) * stride + span - size, 0)
        pads.append((total // 2, total - total // 2))
    return tuple(pads)


@kernel("UniformQuantizedConvolution", types=_QUANTIZED, expensive=True)
def uniform_quantized_convolution(
    xp: ArrayNamespace,
    lhs: Value,
    rhs: Value,
    *parameters: Value,
    window_strides: tuple[int, ...],
    padding: str,
    explicit_padding: tuple[int, ...],
    lhs_dilation: tuple[int, ...],
    rhs_dilation: tuple[int, ...],
    batch_group_count: int,
    feature_group_count: int,
    dimension_numbers: str,
    lhs_quantization_axis: int,
    rhs_quantization_axis: int,
    output_quantization_axis: int,
    output_quantization_min_val: int,
    output_quantization_max_val: int,
) -> Value:
    """Convolve; the sums are exact in int32 before they are scaled."""
    _check_lhs_axis(lhs_quantization_axis)
    plan = _convolution(
        xp, lhs, rhs, window_strides=window_strides, padding=padding,
        explicit_padding=explicit_padding, lhs_dilation=lhs_dilation, rhs_dilation=rhs_dilation,
        batch_group_count=batch_group_count, feature_group_count=feature_group_count,
        dimension_numbers=dimension_numbers,
    )  # fmt: skip
    _check_axis("rhs", rhs_quantization_axis, plan.layouts["rhs"][0])
    _check_axis("output", output_quantization_axis, plan.layouts["output"][1])
    _check_scales(xp, *parameters[::2])
    left = affine("lhs", lhs, parameters[0], parameters[1], -1)
    right = _of_filters("rhs", plan, parameters[2], parameters[3], rhs_quantization_axis)
    target = _of_filters("output", plan, parameters[4], parameters[5], output_quantization_axis)
    x, w = (
        centred_at(xp, plan.lhs, left.zero_point),
        centred_at(xp, plan.rhs, right.zero_point[..., None]),
    )
    multiplier = left.scale.astype(_D) * right.scale / target.scale
    bounds = Limits(output_quantization_min_val, output_quantization_max_val)
    total = plan.run(xp, x, w)
    return plan.in_layout(xp, rescaled(xp, total, multiplier, target.zero_point, bounds))


def _of_filters(
    name: str, plan: _Convolution, scales: Value, zero_points: Value, axis: int
) -> Affine:
    """Return the parameters of filters or results, in a shape that broadcasts over results."""
    axis = -1 if axis == -1 else 0
    affine = affine_of_shape(name, (len(plan.rhs),), scales, zero_points, axis)
    return Affine(*(value.reshape(plan.channel_shape()) for value in affine))


@kernel("UniformQuantizedConvolutionHybrid", types=_HYBRID, expensive=True)
def uniform_quantized_convolution_hybrid(
    xp: ArrayNamespace,
    lhs: Value,
    rhs: Value,
    rhs_scales: Value,
    rhs_zero_points: Value,
    window_strides: tuple[int, ...],
    padding: str,
    explicit_padding: tuple[int, ...],
    lhs_dilation: tuple[int, ...],
    rhs_dilation: tuple[int, ...],
    batch_group_count: int,
    feature_group_count: int,
    dimension_numbers: str,
    rhs_quantization_axis: int,
) -> Value:
    """Convolve floats, quantized batch by batch, with quantized filters."""
    check_positive(xp, "rhs", rhs_scales)
    plan = _convolution(
        xp, lhs, rhs, window_strides=window_strides, padding=padding,
        explicit_padding=explicit_padding, lhs_dilation=lhs_dilation, rhs_dilation=rhs_dilation,
        batch_group_count=batch_group_count, feature_group_count=feature_group_count,
        dimension_numbers=dimension_numbers,
    )  # fmt: skip
    _check_axis("rhs", rhs_quantization_axis, plan.layouts["rhs"][0])
    right = _of_filters("rhs", plan, rhs_scales, rhs_zero_points, rhs_quantization_axis)
    x, scale = dynamically_quantized(xp, plan.lhs)
    total = plan.run(xp, x, centred_at(xp, plan.rhs, right.zero_point[..., None]))
    # The scales of the batches that a result depends on, with a column for each group.
    rows = scale.reshape(plan.batches, len(scale) // plan.batches).T
    by_feature = xp.repeat(rows, len(plan.rhs) // plan.batches, axis=1)
    by_feature = by_feature.reshape(by_feature.shape + (1,) * (total.ndim - 2))
    return plan.in_layout(xp, total.astype(_F) * by_feature * right.scale)
