"""The steps after a product of quantized tensors in one fused op, as oneDNN computes them.

The sums become floats, to which a bias and another tensor may be added; negative ones may become 0.
The result is quantized to a type and scale. Weights are symmetric: 0 stands for the float 0.

Semantics: tensorflow/core/kernels/mkl/mkl_conv_ops.cc, mkl_qmatmul_op.cc, with oneDNN 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels._quantize import limits, plain
from graphmill_plugins.kernels._support import shape_text, unfused

if TYPE_CHECKING:
    from graphmill.dtypes import DType
    from graphmill.spi import ArrayNamespace, Value

_F = np.float32
_MAX_FLOAT_INT32 = _F(2147483520)
"""The largest float below 2³¹."""


class Fusion(NamedTuple):
    """The steps of a fused op after the product.

    Attributes:
        bias: whether it adds a vector.
        summand: whether it adds a tensor.
        relu: whether it replaces negative numbers by 0.
        requantizes: whether it converts to 8 bits, with a range that is given.
    """

    bias: bool = False
    summand: bool = False
    relu: bool = False
    requantizes: bool = False

    @classmethod
    def of(cls, op: str) -> Fusion:
        """Parse the name of an op."""
        return cls("WithBias" in op, "Sum" in op, "Relu" in op, op.endswith("Requantize"))

    @property
    def bias_types(self) -> dict[str, tuple[DType, ...]]:
        """The types of the attr Tbias of requantizing ops."""
        return {"Tbias": (dtypes.float32, dtypes.qint32)} if self.bias else {}


def abs_max(xp: ArrayNamespace, low: Value, high: Value) -> Value:
    """Return the larger magnitude of the two ends of a range."""
    return xp.maximum(xp.abs(low), xp.abs(high))


def num_steps(dtype: np.dtype[Any]) -> np.float32:
    """Return the number of steps from 0 to the end of a symmetric range."""
    return _F(limits(dtype).highest)


def weight_scales(xp: ArrayNamespace, low: Value, high: Value, channels: int) -> Value:
    """Return the scale of qint8 weights, or that of each output channel.

    Raises:
        InvalidArgumentError: there is not one range, nor one for each channel.
    """
    if low.shape != high.shape or low.shape not in ((), (1,), (channels,)):
        raise InvalidArgumentError(
            f"min_filter and max_filter must be scalars or vectors of {channels} elements, got "
            f"{shape_text(low.shape)} and {shape_text(high.shape)}"
        )
    return abs_max(xp, low, high) / _F(127)


def quantized_floats(
    xp: ArrayNamespace, x: Value, scale: Value, dtype: np.dtype[Any], *, relu: bool
) -> Value:
    """Divide floats by a scale, round halves to even, and saturate."""
    if relu:
        x = xp.maximum(x, _F(0))
    bounds = limits(dtype)
    moved = xp.clip(
        x * (_F(1) / scale), _F(bounds.lowest), min(_F(bounds.highest), _MAX_FLOAT_INT32)
    )
    return xp.round(moved).astype(plain(dtype))


def scaled(xp: ArrayNamespace, total: Value, scale: Value, bias: Value | None) -> Value:
    """Return the floats of int32 sums, plus a bias.

    Args:
        xp: the array namespace.
        total: the sums; the last axis is that of the output channels.
        scale: the scale of the sums, or that of each channel.
        bias: floats, or int32 of the same scale; None for no bias.

    Raises:
        InvalidArgumentError: the bias does not have one element for each channel.
    """
    floats = total.astype(_F) * scale
    if bias is None:
        return floats
    if bias.shape != total.shape[-1:]:
        raise InvalidArgumentError(
            f"bias must have one element for each of {total.shape[-1]} output channels, got "
            f"{shape_text(bias.shape)}"
        )
    return unfused(xp, floats) + (bias if bias.dtype.kind == "f" else bias.astype(_F) * scale)
