"""Quantized convolutions and products whose attr `fused_ops` lists the ops after them.

TensorFlow runs these ops only with oneDNN. Tensors and ends of ranges are inputs of two lists,
whose order `fused_ops` decides. See `_fusion` for the arithmetic.

Semantics: tensorflow/core/kernels/mkl/mkl_conv_ops.cc (MklQuantizedConvOp), mkl_matmul_op_fused.cc
(MklQuantizedFusedMatMulOp).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill.spi import KernelDef, KernelTable
from graphmill_plugins.kernels._quantize import exact_product, limits, product_range, sole
from graphmill_plugins.kernels._support import shape_text, unfused
from graphmill_plugins.kernels.nn.fusion import ACTIVATIONS, activation
from graphmill_plugins.kernels.quantized._fusion import (
    Fusion,
    abs_max,
    num_steps,
    quantized_floats,
    weight_scales,
)
from graphmill_plugins.kernels.quantized.fused_convolution import Operands, apply_fusion, sums

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import ArrayNamespace, Value

    Outputs = tuple[list[Value], list[Value]]

_F = np.float32
_CONVOLUTIONS: Final = ("_FusedQuantizedConv2D", "_FusedQuantizedDepthwiseConv2D")
_CONVOLUTION_FUSIONS: Final = frozenset(
    {
        (),
        ("BiasAdd",),
        ("Relu",),
        ("Requantize",),
        ("BiasAdd", "Relu"),
        ("BiasAdd", "Requantize"),
        ("Relu", "Requantize"),
        ("BiasAdd", "Relu", "Requantize"),
        ("BiasAdd", "Sum", "Relu", "Requantize"),
    }
)


def _convolution_fusion(name: str, attrs: dict[str, Any]) -> Fusion:
    """Return the fusion that a convolution's attrs declare.

    Raises:
        InvalidArgumentError: the fusion is not supported, or does not fit the types.
    """
    fused, out_type = tuple(attrs["fused_ops"]), attrs["out_type"]
    if fused not in _CONVOLUTION_FUSIONS:
        raise InvalidArgumentError(f"Unsupported QuantizedConv fusion: [{','.join(fused)}]")
    fusion = Fusion("BiasAdd" in fused, "Sum" in fused, "Relu" in fused, "Requantize" in fused)
    if fusion.requantizes != (out_type.itemsize == 1):
        raise InvalidArgumentError(
            f"{name} has 8-bit outputs if it requantizes, else qint32; it has out_type={out_type} "
            f"and fused_ops={list(fused)}"
        )
    if not fusion.summand and attrs["Tsummand"] != out_type:
        raise InvalidArgumentError(
            "QuantizedConv: incorrect summand data type. When Sum is not fused, Tsummand attribute "
            "must have same value as out_type."
        )
    if fusion.summand and out_type.kind != "u":
        raise InvalidArgumentError(f"{name} adds a summand only if out_type is quint8")
    if not attrs["is_filter_const"]:
        raise InvalidArgumentError("QuantizedConv: filter must be a constant")
    if attrs["data_format"] != "NHWC":
        raise InvalidArgumentError(f"{name} supports NHWC only, got {attrs['data_format']}")
    return fusion


def _check_count(name: str, inputs: Sequence[Value], count: int) -> None:
    if len(inputs) != count:
        raise InvalidArgumentError(
            f"{name} with these fused_ops takes {count} inputs in both lists together, got "
            f"{len(inputs)}"
        )


def _fused_convolution(op: str) -> Callable[..., Callable[..., Outputs]]:
    def bind(xp: ArrayNamespace, **attrs: Any) -> Callable[..., Outputs]:
        fusion, out_type = _convolution_fusion(op, attrs), attrs["out_type"]
        tensors = 2 + fusion.bias + fusion.summand
        count = tensors + 4 + 2 * fusion.summand + 2 * fusion.requantizes

        def convolve(device_inputs: list[Value], host_inputs: list[Value]) -> Outputs:
            inputs = [*device_inputs, *host_inputs]
            _check_count(op, inputs, count)
            x, w = inputs[:2]
            summand = [inputs[tensors - 1], *inputs[tensors + 4 : tensors + 6]]
            operands = Operands(
                x,
                w,
                tuple(inputs[tensors : tensors + 4]),
                inputs[2] if fusion.bias else None,
                summand if fusion.summand else (),
                tuple(inputs[-2:]) if fusion.requantizes else (),
            )
            total = sums(xp, op, x, w, **attrs)
            is_signed = fusion.summand and limits(summand[0].dtype).lowest < 0
            saturates = np.dtype(np.int8) if is_signed else out_type
            found, low, high = apply_fusion(xp, fusion, operands, total, out_type, saturates)
            return [found], [low, high]

        return convolve

    return bind


def _product_activation(fused: tuple[str, ...]) -> tuple[str, str]:
    """Return the activation of a product, "" for none, and the form of its output.

    Raises:
        UnimplementedError: the fusion is not supported.
    """
    middle = fused[1:]
    last = middle[-1] if middle and middle[-1] in ("Requantize", "Dequantize") else ""
    middle = middle[:-1] if last else middle
    name = middle[0] if middle else ""
    is_known = not name or name in ACTIVATIONS or (name == "Add" and last == "Dequantize")
    if fused[:1] != ("BiasAdd",) or len(middle) > 1 or not is_known:
        raise UnimplementedError(f"Fusion is not implemented: [{','.join(fused)}]")
    if not last and name not in ("", "Relu"):
        raise UnimplementedError(
            "Nonlinear activation except Relu can be supported only with Dequantize or Requantize "
            "fusion."
        )
    return name, last


class _Product:
    """The steps after the sums of a matrix product.

    Args:
        xp: the array namespace.
        attrs: those of the node.
    """

    def __init__(self, xp: ArrayNamespace, attrs: dict[str, Any]) -> None:
        self._xp, self._out = xp, attrs["Tout"]
        name, self._last = _product_activation(tuple(attrs["fused_ops"]))
        expected = {"Requantize": ("qint8", "quint8"), "Dequantize": ("float32", "bfloat16")}
        kind = dtypes.as_dtype(self._out).name
        if kind not in expected.get(self._last, ("qint32",)):
            raise InvalidArgumentError(
                f"_QuantizedMatMul with fused_ops={list(attrs['fused_ops'])} does not return {kind}"
            )
        self.takes_side_input = name == "Add"
        self.requantizes = self._last == "Requantize"
        self._is_shifted = attrs["input_quant_mode"] == "MIN_FIRST"
        self._shifts_output = attrs["output_quant_mode"] == "MIN_FIRST"
        self._activate = None
        if name and not self.takes_side_input:
            float32 = np.dtype(np.float32)
            self._activate = activation(xp, name, float32, attrs["leakyrelu_alpha"])

    def apply(
        self,
        a: Value,
        b: Value,
        extras: Sequence[Value],
        ends: Sequence[Value],
        out_ends: Sequence[Value],
    ) -> tuple[Value, ...]:
        """Return the output, and its range unless it is made of floats.

        Args:
            a: the left matrix.
            b: the right matrix.
            extras: the bias and what else is added.
            ends: the ends of the ranges of both matrices.
            out_ends: those of an output of 8 bits.
        """
        xp, low, high = self._xp, sole("min_a", ends[0]), sole("max_a", ends[1])
        weights = weight_scales(xp, ends[2], ends[3], b.shape[-1])
        span = high - low if self._is_shifted else abs_max(xp, low, high)
        scale = span / num_steps(a.dtype) * weights
        total = exact_product(xp, a.astype(np.int32), b.astype(np.int32)).astype(_F)
        bias = self._bias(extras[0], a, b, (low, high), weights)
        floats = unfused(xp, total * scale if self._last else total) + bias
        if self._activate is not None:
            floats = self._activate(floats)
        if self._last == "Dequantize":
            return ((floats + extras[1] if self.takes_side_input else floats).astype(self._out),)
        if self._last == "Requantize":
            return self._requantized(floats, *(sole("output range", end) for end in out_ends))
        range_ = product_range(a, b, (low, high, *ends[2:]), is_symmetric=True)
        return (quantized_floats(xp, floats, _F(1), self._out, relu=False), *range_)

    def _bias(
        self, bias: Value, a: Value, b: Value, ends: tuple[Value, Value], weights: Value
    ) -> Value:
        """Return the bias as floats.

        An integer bias already includes the effect of a shifted range. For a range that is not
        shifted, it is divided by the first channel's scale, as in TensorFlow, instead of multiplied
        by the scale of each channel.
        """
        if bias.shape != b.shape[-1:]:
            raise InvalidArgumentError(
                f"bias must be a vector of {b.shape[-1]} elements, got {shape_text(bias.shape)}"
            )
        floats, low = bias.astype(_F), ends[0]
        if bias.dtype.kind == "i" and not self._is_shifted:
            first = weights.reshape(-1)[0] * _F(127)
            return floats * (num_steps(a.dtype) * _F(127) / (abs_max(self._xp, *ends) * first))
        if bias.dtype.kind == "i":
            return floats * ((ends[1] - low) / num_steps(a.dtype) * weights)
        if not self._is_shifted:
            return floats
        columns = self._xp.sum(b.astype(np.int32), axis=0).astype(_F)
        return floats + columns * (low * weights)

    def _requantized(self, floats: Value, low: Value, high: Value) -> tuple[Value, ...]:
        xp, out = self._xp, self._out
        if self._shifts_output:
            scale = (high - low) / num_steps(out)
            floats = floats - low
            return (quantized_floats(xp, floats, scale, out, relu=False), low, high)
        end = abs_max(xp, low, high)
        found = quantized_floats(xp, floats, end / num_steps(out), out, relu=False)
        return (found, -end if limits(out).lowest else xp.zeros_like(end), end)


def _quantized_mat_mul(xp: ArrayNamespace, **attrs: Any) -> Callable[..., Outputs]:
    product = _Product(xp, attrs)
    tensors = 3 + product.takes_side_input

    def multiply(device_inputs: list[Value], host_inputs: list[Value]) -> Outputs:
        inputs = [*device_inputs, *host_inputs]
        _check_count("_QuantizedMatMul", inputs, tensors + 4 + 2 * product.requantizes)
        a, b = inputs[:2]
        if a.ndim != 2 or b.ndim != 2:
            raise InvalidArgumentError(
                f"In[0] and In[1] must be matrices, got shapes {shape_text(a.shape)} and "
                f"{shape_text(b.shape)}"
            )
        a = a.T if attrs["transpose_a"] else a
        b = b.T if attrs["transpose_b"] else b
        if a.shape[1] != b.shape[0]:
            raise InvalidArgumentError(
                f"Matrix size-incompatible: In[0]: {shape_text(a.shape)}, In[1]: "
                f"{shape_text(b.shape)}"
            )
        ends = inputs[tensors : tensors + 4]
        found, *range_ = product.apply(a, b, inputs[2:tensors], ends, inputs[tensors + 4 :])
        return [found], range_

    return multiply


_SMALL: Final = (dtypes.qint8, dtypes.quint8)
_CONVOLUTION_TYPES: Final = {
    "Tinput": _SMALL,
    "Tfilter": (dtypes.qint8,),
    "Tbias": (dtypes.float32, dtypes.qint32),
    "Tsummand": (*_SMALL, dtypes.qint32),
    "out_type": (*_SMALL, dtypes.qint32),
}
_PRODUCT_TYPES: Final = {
    "T1": _SMALL,
    "T2": (dtypes.qint8,),
    "Tbias": (dtypes.float32, dtypes.bfloat16, dtypes.qint32),
    "U": (dtypes.float32, dtypes.bfloat16),
    "Tout": (*_SMALL, dtypes.float32, dtypes.bfloat16, dtypes.qint32),
}
KERNELS = KernelTable(
    [
        *(
            KernelDef(
                (op,), _fused_convolution(op), make=True, types=_CONVOLUTION_TYPES, expensive=True
            )
            for op in _CONVOLUTIONS
        ),
        KernelDef(
            ("_QuantizedMatMul",),
            _quantized_mat_mul,
            make=True,
            types=_PRODUCT_TYPES,
            expensive=True,
        ),
    ]
)
