"""Uniform quantization: UniformQuantize, UniformDequantize, UniformRequantize, addition, clipping.

Semantics: tensorflow/core/kernels/uniform_quant_ops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._quantize import Limits, plain
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.quantized._affine import (
    affine,
    affine_of_shape,
    as_int32,
    centred_at,
    check_positive,
    clipped,
    quantized,
    rescaled,
)

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value

_F, _D = np.float32, np.float64


@kernel(
    "UniformQuantize",
    types={"Tin": (dtypes.float32,), "Tout": (dtypes.qint8, dtypes.quint8, dtypes.qint32)},
)
def uniform_quantize(
    xp: ArrayNamespace,
    x: Value,
    scales: Value,
    zero_points: Value,
    Tout: np.dtype[Any],
    quantization_axis: int,
    quantization_min_val: int,
    quantization_max_val: int,
) -> Value:
    """Quantize floats; halves are rounded up."""
    scale, zero_point = affine("input", x, scales, zero_points, quantization_axis)
    bounds = Limits(quantization_min_val, quantization_max_val)
    return quantized(xp, x, _F(1) / scale, zero_point, bounds).astype(plain(Tout))


@kernel(
    "UniformDequantize",
    types={"Tin": (dtypes.qint8, dtypes.quint8, dtypes.qint32), "Tout": (dtypes.float32,)},
)
def uniform_dequantize(
    xp: ArrayNamespace, x: Value, scales: Value, zero_points: Value, quantization_axis: int
) -> Value:
    """Return the floats of quantized values."""
    scale, zero_point = affine("input", x, scales, zero_points, quantization_axis)
    check_positive(xp, "input", scales)
    return centred_at(xp, x, zero_point).astype(_F) * scale


@kernel("UniformRequantize", types={"Tin": (dtypes.qint8, dtypes.qint32), "Tout": (dtypes.qint8,)})
def uniform_requantize(
    xp: ArrayNamespace,
    x: Value,
    input_scales: Value,
    input_zero_points: Value,
    output_scales: Value,
    output_zero_points: Value,
    Tout: np.dtype[Any],
    input_quantization_axis: int,
    output_quantization_axis: int,
    output_quantization_min_val: int,
    output_quantization_max_val: int,
) -> Value:
    """Convert quantized values to another scale and zero point."""
    axes = {input_quantization_axis, output_quantization_axis} - {-1}
    if len(axes) > 1:
        raise InvalidArgumentError(
            "input and output must be quantized along the same axis, got axes "
            f"{input_quantization_axis} and {output_quantization_axis}"
        )
    source = affine("input", x, input_scales, input_zero_points, input_quantization_axis)
    target = affine("output", x, output_scales, output_zero_points, output_quantization_axis)
    check_positive(xp, "input", input_scales)
    check_positive(xp, "output", output_scales)
    multiplier = source.scale.astype(_D) / target.scale.astype(_D)
    bounds = Limits(output_quantization_min_val, output_quantization_max_val)
    moved = centred_at(xp, x, source.zero_point)
    return rescaled(xp, moved, multiplier, target.zero_point, bounds).astype(plain(Tout))


def _check_same_axis(name: str, rank: int, axis: int, out_rank: int, out_axis: int) -> None:
    """Raise InvalidArgumentError if a term and the sum are quantized along different axes."""
    if min(axis, out_axis) >= 0 and rank - axis != out_rank - out_axis:
        raise InvalidArgumentError(
            f"{name} and output must be quantized along the same axis, got axis {axis} of {rank} "
            f"and axis {out_axis} of {out_rank}"
        )


@kernel("UniformQuantizedAdd", types={"T": (dtypes.qint32,)})
def uniform_quantized_add(
    xp: ArrayNamespace,
    lhs: Value,
    rhs: Value,
    lhs_scales: Value,
    lhs_zero_points: Value,
    rhs_scales: Value,
    rhs_zero_points: Value,
    output_scales: Value,
    output_zero_points: Value,
    lhs_quantization_axis: int,
    rhs_quantization_axis: int,
    output_quantization_axis: int,
    output_quantization_min_val: int,
    output_quantization_max_val: int,
) -> Value:
    """Add two arrays that broadcast, after a conversion to the scale of the result."""
    try:
        shape = np.broadcast_shapes(lhs.shape, rhs.shape)
    except ValueError as error:
        raise InvalidArgumentError(
            f"Cannot Add tensors of shapes: {shape_text(lhs.shape)} and {shape_text(rhs.shape)}"
        ) from error
    target = affine_of_shape(
        "output", shape, output_scales, output_zero_points, output_quantization_axis
    )
    check_positive(xp, "output", output_scales)
    total = target.zero_point
    for name, x, scales, zero_points, axis in (
        ("lhs", lhs, lhs_scales, lhs_zero_points, lhs_quantization_axis),
        ("rhs", rhs, rhs_scales, rhs_zero_points, rhs_quantization_axis),
    ):
        source = affine(name, x, scales, zero_points, axis)
        check_positive(xp, name, scales)
        _check_same_axis(name, x.ndim, axis, len(shape), output_quantization_axis)
        multiplier = source.scale.astype(_D) / target.scale.astype(_D)
        moved = rescaled(xp, centred_at(xp, x, source.zero_point), multiplier, np.int32(0))
        total = total + as_int32(xp, moved)
    return clipped(xp, total, Limits(output_quantization_min_val, output_quantization_max_val))


@kernel("UniformQuantizedClipByValue", types={"T": (dtypes.qint32,)})
def uniform_quantized_clip_by_value(
    xp: ArrayNamespace,
    operand: Value,
    min_: Value,
    max_: Value,
    scales: Value,
    zero_points: Value,
    quantization_axis: int,
) -> Value:
    """Clip quantized values to bounds for the tensor or for each channel."""
    affine("operand", operand, scales, zero_points, quantization_axis)
    low, high = affine("operand", operand, min_, max_, quantization_axis)
    return xp.minimum(xp.maximum(operand, low), high)
