"""Products of a quantized matrix and symmetric weights, fused with the following steps.

TensorFlow runs these ops only with oneDNN. See `_fusion` for the arithmetic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill.spi import KernelDef, KernelTable
from graphmill_plugins.kernels._quantize import exact_product, product_range, sole
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.quantized._fusion import (
    Fusion,
    abs_max,
    num_steps,
    quantized_floats,
    scaled,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import ArrayNamespace, Value
    from graphmill_plugins.kernels._quantize import Ranged

_F = np.float32
_OUTPUTS: Final = {
    "QuantizedMatMulWithBias": dtypes.qint32,
    "QuantizedMatMulWithBiasAndRelu": dtypes.qint32,
    "QuantizedMatMulWithBiasAndRequantize": dtypes.quint8,
    "QuantizedMatMulWithBiasAndReluAndRequantize": dtypes.quint8,
    "QuantizedMatMulWithBiasAndDequantize": dtypes.float32,
}
_NAMES: Final = ("min_a", "max_a", "min_b", "max_b", "min_freezed_output", "max_freezed_output")


def _types(op: str) -> dict[str, tuple[DType, ...]]:
    """Return the element types of an op."""
    types: dict[str, tuple[DType, ...]] = {
        "T1": (dtypes.quint8,),
        "T2": (dtypes.qint8,),
        "Toutput": (_OUTPUTS[op],),
    }
    fusion = Fusion.of(op)
    return types if fusion.relu and not fusion.requantizes else types | fusion.bias_types


def _check_operands(a: Value, b: Value, *transposes: bool) -> None:
    if any(transposes):
        raise UnimplementedError(
            "quantized products with a bias do not support transposed operands"
        )
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise InvalidArgumentError(
            "a and b must be matrices that can be multiplied, got shapes "
            f"{shape_text(a.shape)} and {shape_text(b.shape)}"
        )


def _floats(
    xp: ArrayNamespace, inputs: Sequence[Value], ends: Sequence[Value], is_shifted: bool
) -> tuple[Value, Value]:
    """Return the product with its bias, and the scale of the product's sums.

    Args:
        xp: the array namespace.
        inputs: both matrices and the bias.
        ends: the ends of their ranges.
        is_shifted: whether the smallest value of `a` stands for the start of its range, and not
            for 0. An integer bias already includes the effect of that shift.
    """
    a, b, bias = inputs
    low, high, *weight_ends = ends[:4]
    span = high - low if is_shifted else abs_max(xp, low, high)
    scale = span / num_steps(a.dtype) * (abs_max(xp, *weight_ends) / num_steps(b.dtype))
    weights = b.astype(np.int32)
    floats = scaled(xp, exact_product(xp, a.astype(np.int32), weights), scale, bias)
    if is_shifted and bias.dtype.kind == "f":
        columns = xp.sum(weights, axis=0).astype(_F)
        floats = floats + columns * (low * (abs_max(xp, *weight_ends) / num_steps(b.dtype)))
    return floats, scale


def _fused(op: str) -> Callable[..., Ranged | Value]:
    """Return the kernel function of an op."""
    fusion = Fusion.of(op)

    def multiply(
        xp: ArrayNamespace,
        *inputs: Value,
        Toutput: np.dtype[Any],
        transpose_a: bool,
        transpose_b: bool,
        input_quant_mode: str,
    ) -> Ranged | Value:
        _check_operands(*inputs[:2], transpose_a, transpose_b)
        named_ends = zip(_NAMES, inputs[3:], strict=False)
        ends = [sole(name, value) for name, value in named_ends]
        floats, scale = _floats(xp, inputs[:3], ends, input_quant_mode == "MIN_FIRST")
        if Toutput.kind == "f":
            return floats
        range_ = tuple(ends[4:])
        if fusion.requantizes:
            scale = abs_max(xp, *range_) / num_steps(Toutput)
        else:
            range_ = product_range(inputs[0], inputs[1], ends, is_symmetric=True)
        return (quantized_floats(xp, floats, scale, Toutput, relu=fusion.relu), *range_)

    return multiply


KERNELS = KernelTable(
    KernelDef((op,), _fused(op), types=_types(op), expensive=True) for op in _OUTPUTS
)
