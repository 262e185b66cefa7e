"""Gradients of elementwise functions of one tensor.

Semantics: tensorflow/python/ops/math_grad.py. Each table entry returns the factor of the incoming
gradient, or the complete gradient.
"""

from __future__ import annotations

import math as numbers
from typing import TYPE_CHECKING

from graphmill.dtypes import as_dtype
from graphmill.ops import array, math
from graphmill.spi import gradient
from graphmill.spi.gradients import GradientTable
from graphmill_plugins.gradients._support import as_dense, conj, const, shaped_as

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi.gradients import ForwardOp, Gradient
    from graphmill.spi.graphs import Tensor

    Factor = Callable[[Tensor], Tensor]

_TWO_OVER_ROOT_PI = 2 / numbers.sqrt(numbers.pi)


def _square(x: Tensor) -> Tensor:
    return math.square(x)


_OF_INPUT: dict[str, Factor] = {
    "Square": lambda x: x * 2,
    "Log": math.reciprocal,
    "Log1p": lambda x: math.reciprocal(x + 1),
    "Sin": math.cos,
    "Cos": lambda x: -math.sin(x),
    "Tan": lambda x: math.square(math.reciprocal(math.cos(x))),
    "Sinh": math.cosh,
    "Cosh": math.sinh,
    "Asin": lambda x: math.rsqrt(1 - _square(x)),
    "Acos": lambda x: -math.rsqrt(1 - _square(x)),
    "Atan": lambda x: math.reciprocal(_square(x) + 1),
    "Atanh": lambda x: math.reciprocal(1 - _square(x)),
    "Erf": lambda x: math.exp(-_square(x)) * _TWO_OVER_ROOT_PI,
    "Erfc": lambda x: math.exp(-_square(x)) * -_TWO_OVER_ROOT_PI,
    "Lgamma": math.digamma,
    "Digamma": lambda x: math.polygamma(const(x, 1), x),
    "Abs": math.sign,
    "Expint": lambda x: math.exp(x) / x,
    "FresnelCos": lambda x: math.cos(_square(x) * (numbers.pi / 2)),
    "FresnelSin": lambda x: math.sin(_square(x) * (numbers.pi / 2)),
    "Spence": lambda x: math.select_v2(
        math.equal(x, const(x, 1)), const(x, -1), math.log(x) / (1 - x)
    ),
    "BesselI0": math.bessel_i1,
    "BesselK0": lambda x: -math.bessel_k1(x),
    "BesselJ0": lambda x: -math.bessel_j1(x),
    "BesselY0": lambda x: -math.bessel_y1(x),
}
"""The derivative as a function of the input; its conjugate is used."""

_OF_OUTPUT: dict[str, Factor] = {
    "Exp": lambda y: y,
    "Expm1": lambda y: y + 1,
    "Asinh": lambda y: math.reciprocal(math.cosh(y)),
    "Acosh": lambda y: math.reciprocal(math.sinh(y)),
    "Erfinv": lambda y: math.exp(_square(y)) * (numbers.sqrt(numbers.pi) / 2),
    "Ndtri": lambda y: math.exp(_square(y) / 2) * numbers.sqrt(2 * numbers.pi),
}
"""The derivative as a function of the output."""

_BY_OP: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Tanh": lambda y, dy: math.tanh_grad(conj(y), dy),
    "Sigmoid": lambda y, dy: math.sigmoid_grad(conj(y), dy),
    "Sqrt": math.sqrt_grad,
    "Rsqrt": math.rsqrt_grad,
    "Reciprocal": math.reciprocal_grad,
    "Inv": math.reciprocal_grad,
}
"""Gradient ops that take the output and its gradient."""

_OF_BOTH: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Dawsn": lambda x, y: 1 - x * y * 2,
    "BesselI0e": lambda x, y: math.bessel_i1e(x) - math.sign(x) * y,
    "BesselI1": lambda x, y: _at_zero(x, 1, math.bessel_i0(x) - math.div_no_nan(y, x)),
    "BesselI1e": lambda x, y: _at_zero(
        x, 0.5, math.bessel_i0e(x) - y * (math.sign(x) + math.reciprocal(x))
    ),
    "BesselK0e": lambda x, y: y - math.bessel_k1e(x),
    "BesselK1": lambda x, y: -math.bessel_k0(x) - y / x,
    "BesselK1e": lambda x, y: y * (1 - math.reciprocal(x)) - math.bessel_k0e(x),
    "BesselJ1": lambda x, y: _at_zero(x, 0.5, math.bessel_j0(x) - math.div_no_nan(y, x)),
    "BesselY1": lambda x, y: math.bessel_y0(x) - y / x,
}
"""The derivative as a function of input and output."""


def _at_zero(x: Tensor, value: float, elsewhere: Tensor) -> Tensor:
    return math.select_v2(math.equal(x, const(x, 0)), const(x, value), elsewhere)


table = GradientTable()


def _of_input(factor: Factor) -> Callable[[ForwardOp, Gradient], Tensor]:
    return lambda op, dy: as_dense(dy) * conj(factor(op.inputs[0]))


def _of_output(factor: Factor) -> Callable[[ForwardOp, Gradient], Tensor]:
    return lambda op, dy: as_dense(dy) * conj(factor(op.outputs[0]))


def _of_both(
    factor: Callable[[Tensor, Tensor], Tensor],
) -> Callable[[ForwardOp, Gradient], Tensor]:
    return lambda op, dy: as_dense(dy) * factor(op.inputs[0], op.outputs[0])


def _by_op(build: Callable[[Tensor, Tensor], Tensor]) -> Callable[[ForwardOp, Gradient], Tensor]:
    return lambda op, dy: build(op.outputs[0], as_dense(dy))


for _name, _factor in _OF_INPUT.items():
    table.add(_name, function=_of_input(_factor))
for _name, _factor in _OF_OUTPUT.items():
    table.add(_name, function=_of_output(_factor))
for _name, _both in _OF_BOTH.items():
    table.add(_name, function=_of_both(_both))
for _name, _build in _BY_OP.items():
    table.add(_name, function=_by_op(_build))


@gradient("Neg")
def neg(_op: ForwardOp, dy: Gradient) -> Tensor:
    """Return -dy."""
    return -as_dense(dy)


@gradient("Conj")
def conj_gradient(_op: ForwardOp, dy: Tensor) -> Tensor:
    """Return the conjugate."""
    return math.conj(as_dense(dy))


@gradient("TanhGrad")
def tanh_grad(op: ForwardOp, dy: Tensor) -> list[Tensor]:
    """Differentiate g (1 - y²)."""
    y, first_dy = conj(op.inputs[0]), conj(op.inputs[1])
    return [dy * -2 * first_dy * y, math.tanh_grad(y, dy)]


@gradient("SigmoidGrad")
def sigmoid_grad(op: ForwardOp, dy: Tensor) -> list[Tensor]:
    """Differentiate g y (1 - y)."""
    y, first_dy = conj(op.inputs[0]), conj(op.inputs[1])
    scaled = dy * first_dy
    return [scaled - 2 * scaled * y, math.sigmoid_grad(y, dy)]


@gradient("SqrtGrad")
def sqrt_grad(op: ForwardOp, dy: Tensor) -> list[Tensor]:
    """Differentiate g / (2 y)."""
    y, out = op.inputs[0], op.outputs[0]
    scaled = dy / y
    return [-conj(scaled) * out, scaled * const(dy, 0.5)]


@gradient("RsqrtGrad")
def rsqrt_grad(op: ForwardOp, dy: Tensor) -> list[Tensor]:
    """Differentiate -g y³ / 2."""
    y, first_dy = conj(op.inputs[0]), op.inputs[1]
    return [conj(dy) * first_dy * const(dy, -1.5) * math.square(y), math.rsqrt_grad(y, dy)]


@gradient("ReciprocalGrad", "InvGrad")
def reciprocal_grad(op: ForwardOp, dy: Tensor) -> list[Tensor]:
    """Differentiate -g y²."""
    y, first_dy = conj(op.inputs[0]), op.inputs[1]
    return [conj(dy) * -2 * first_dy * y, math.reciprocal_grad(y, dy)]


@gradient("Cast")
def cast(op: ForwardOp, dy: Tensor) -> Tensor | None:
    """Cast back, between types that have gradients."""
    source = op.inputs[0].dtype.base_dtype
    if not (source.is_floating or source.is_complex):
        return None
    dense_dy = as_dense(dy)
    if dense_dy.dtype.base_dtype.is_complex and not source.is_complex:
        part = as_dtype("float64" if dense_dy.dtype.base_dtype.size == 16 else "float32")
        dense_dy = math.real(dense_dy, Tout=part)
    return math.cast(dense_dy, DstT=source)


@gradient("Bitcast")
def bitcast(op: ForwardOp, dy: Tensor) -> None:
    """Return None, because bits have no derivative."""
    del op, dy


def _complex_of(real: Tensor) -> str:
    return "complex64" if real.dtype.base_dtype.name == "float32" else "complex128"


@gradient("Real")
def real(op: ForwardOp, dy: Tensor) -> Tensor:
    """Return the gradient as the real part."""
    return math.complex(dy, array.zeros_like(dy), Tout=op.inputs[0].dtype.base_dtype)


@gradient("Imag")
def imag(op: ForwardOp, dy: Tensor) -> Tensor:
    """Return i dy for a real `dy`, as TensorFlow does."""
    return math.complex(array.zeros_like(dy), dy, Tout=op.inputs[0].dtype.base_dtype)


@gradient("Complex")
def complex_(op: ForwardOp, dy: Tensor) -> list[Tensor]:
    """Return the real and the imaginary part."""
    kind = op.inputs[0].dtype.base_dtype
    x, y = op.inputs
    return shaped_as(op, (x, math.real(dy, Tout=kind)), (y, math.imag(dy, Tout=kind)))


@gradient("ComplexAbs")
def complex_abs(op: ForwardOp, dy: Tensor) -> Tensor:
    """Return dy x / |x|."""
    kind = op.inputs[0].dtype.base_dtype
    complex_dy = math.complex(dy, array.zeros_like(dy), Tout=kind)
    size = math.complex(op.outputs[0], array.zeros_like(op.outputs[0]), Tout=kind)
    return math.div_no_nan(complex_dy * op.inputs[0], size)


@gradient("Angle")
def angle(op: ForwardOp, dy: Tensor) -> Tensor:
    """Return -dy / (Im x + i Re x)."""
    kind, x = op.inputs[0].dtype.base_dtype, op.inputs[0]
    part = dy.dtype.base_dtype
    turned = math.complex(math.imag(x, Tout=part), math.real(x, Tout=part), Tout=kind)
    complex_dy = math.complex(dy, array.zeros_like(dy), Tout=kind)
    return -complex_dy * math.reciprocal(turned)


@gradient("Sign")
def sign(op: ForwardOp, _dy: Tensor) -> Tensor:
    """Return zeros."""
    return op.zeros(op.inputs[0])


@gradient("NextAfter")
def next_after(op: ForwardOp, dy: Tensor) -> list[Tensor]:
    """Pass the gradient to the first input."""
    x, y = op.inputs
    return shaped_as(op, (x, dy), (y, array.zeros_like(dy)))


@gradient("IsFinite", "IsInf", "IsNan")
def none(op: ForwardOp, dy: Tensor) -> None:
    """Return None, because booleans have no derivative."""
    del op, dy
