"""Convolutions of quantized images and symmetric weights, fused with the following steps.

TensorFlow runs these ops only with oneDNN and constant filters. See `_fusion` for the arithmetic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import KernelDef, KernelTable
from graphmill_plugins.kernels._quantize import plain, product_range, sole
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.nn.window import make_windows
from graphmill_plugins.kernels.quantized._fusion import (
    Fusion,
    abs_max,
    num_steps,
    quantized_floats,
    scaled,
    weight_scales,
)
from graphmill_plugins.kernels.quantized._sums import convolution_sums, depthwise_sums

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import ArrayNamespace, Value
    from graphmill_plugins.kernels._quantize import Ranged

_F = np.float32
_OPS: Final = (
    "QuantizedConv2D",
    "QuantizedConv2DPerChannel",
    "QuantizedConv2DAndRelu",
    "QuantizedConv2DAndReluAndRequantize",
    "QuantizedConv2DAndRequantize",
    "QuantizedConv2DWithBias",
    "QuantizedConv2DWithBiasAndRelu",
    "QuantizedConv2DWithBiasAndReluAndRequantize",
    "QuantizedConv2DWithBiasAndRequantize",
    "QuantizedConv2DWithBiasSumAndRelu",
    "QuantizedConv2DWithBiasSumAndReluAndRequantize",
    "QuantizedConv2DWithBiasSignedSumAndReluAndRequantize",
    "QuantizedDepthwiseConv2D",
    "QuantizedDepthwiseConv2DWithBias",
    "QuantizedDepthwiseConv2DWithBiasAndRelu",
    "QuantizedDepthwiseConv2DWithBiasAndReluAndRequantize",
)


def _types(op: str) -> dict[str, tuple[DType, ...]]:
    """Return the element types of an op; ops with a signed input have a bias and no summand."""
    fusion = Fusion.of(op)
    takes_signed = op.startswith("QuantizedConv2DWithBias") and not fusion.summand
    types: dict[str, tuple[DType, ...]] = {
        "Tinput": (dtypes.quint8, dtypes.qint8) if takes_signed else (dtypes.quint8,),
        "Tfilter": (dtypes.qint8,),
        "out_type": (dtypes.qint32,),
    }
    if fusion.requantizes:
        types["out_type"] = (dtypes.quint8,) if fusion.relu else (dtypes.qint8,)
        types |= fusion.bias_types
    if fusion.requantizes and fusion.summand:
        types["Tsummand"] = (dtypes.qint8,) if "Signed" in op else (dtypes.quint8,)
    return types


def sums(
    xp: ArrayNamespace,
    op: str,
    x: Value,
    w: Value,
    *,
    strides: Sequence[int],
    padding: str,
    dilations: Sequence[int],
    padding_list: Sequence[int] = (),
    explicit_paddings: Sequence[int] = (),
    **_others: Any,
) -> Value:
    """Return the sums of a convolution, in int32.

    Raises:
        InvalidArgumentError: the shapes or attrs do not fit each other.
    """
    windows = make_windows(
        op,
        strides=strides,
        padding="EXPLICIT" if padding_list else padding,
        data_format="NHWC",
        dilations=dilations,
        explicit_paddings=padding_list or explicit_paddings,
    )
    if x.ndim != 4 or w.ndim != 4 or x.shape[3] != w.shape[2]:
        raise InvalidArgumentError(
            "input and filter must be 4-dimensional and have the same depth, got "
            f"{shape_text(x.shape)} and {shape_text(w.shape)}"
        )
    axes = windows.axes(x.shape[1:3], w.shape[:2])
    convolve = depthwise_sums if "Depthwise" in op else convolution_sums
    return convolve(xp, x.astype(np.int32), w.astype(np.int32), axes)


def _summand(
    xp: ArrayNamespace, shape: tuple[int, ...], summand: Value, ends: Sequence[Value]
) -> Value:
    """Return the floats of the summand.

    Raises:
        InvalidArgumentError: it does not have the shape of the result.
    """
    if summand.shape != shape:
        raise InvalidArgumentError(
            f"summand must have the shape of the output, {shape_text(shape)}, got "
            f"{shape_text(summand.shape)}"
        )
    if not ends:
        return summand
    scale = abs_max(xp, *(sole("summand range", end) for end in ends)) / num_steps(summand.dtype)
    return summand.astype(_F) * scale


class Operands(NamedTuple):
    """The inputs of a fused convolution.

    Attributes:
        x, w: the images and the weights.
        ranges: the ends of their ranges; those of the weights may be vectors.
        bias: None for none.
        summand: the tensor that is added, and the ends of its range if it is quantized.
        out_ends: the ends of the range of an output of 8 bits.
    """

    x: Value
    w: Value
    ranges: tuple[Value, ...]
    bias: Value | None
    summand: Sequence[Value]
    out_ends: tuple[Value, ...]


def apply_fusion(
    xp: ArrayNamespace,
    fusion: Fusion,
    operands: Operands,
    total: Value,
    out_type: np.dtype[Any],
    saturates: np.dtype[Any],
) -> Ranged:
    """Return the output for the sums of a convolution.

    Args:
        xp: the array namespace.
        fusion: what is fused.
        operands: the inputs.
        total: the sums, in int32.
        out_type: the type of the output.
        saturates: the type to whose limits values are clipped.

    Raises:
        InvalidArgumentError: the shapes do not fit each other.
    """
    x, w, ranges, bias, summand, out_ends = operands
    low, high = (sole("input range", end) for end in ranges[:2])
    ranges = (low, high, *ranges[2:])
    scale = abs_max(xp, low, high) / num_steps(x.dtype)
    scales = weight_scales(xp, ranges[2], ranges[3], total.shape[-1])
    floats = scaled(xp, total, scale * scales, bias)
    if fusion.requantizes:
        ends = tuple(sole("output range", end) for end in out_ends)
        out_scale = abs_max(xp, *ends) / num_steps(out_type)
    else:
        ends = product_range(x, w, ranges, is_symmetric=True)
        out_scale = xp.max(scales) * scale
    if fusion.summand:
        floats = floats + _summand(xp, total.shape, summand[0], summand[1:])
    found = quantized_floats(xp, floats, out_scale, saturates, relu=fusion.relu)
    return (found.astype(plain(out_type)), *ends)


def _fused(op: str) -> Callable[..., Ranged]:
    """Return the kernel function of an op."""
    fusion = Fusion.of(op)
    first = 2 + fusion.bias

    def convolve(
        xp: ArrayNamespace, *inputs: Value, out_type: np.dtype[Any], **attrs: Any
    ) -> Ranged:
        x, w = inputs[:2]
        total = sums(xp, op, x, w, **attrs)
        rest = inputs[first + 4 :]
        bias = inputs[2] if fusion.bias else None
        out_ends, summand = (rest[:2], rest[2:]) if fusion.requantizes else ((), rest)
        operands = Operands(x, w, inputs[first : first + 4], bias, summand, out_ends)
        saturates = np.dtype(np.int8) if "Signed" in op else out_type
        return apply_fusion(xp, fusion, operands, total, out_type, saturates)

    return convolve


KERNELS = KernelTable(KernelDef((op,), _fused(op), types=_types(op), expensive=True) for op in _OPS)
