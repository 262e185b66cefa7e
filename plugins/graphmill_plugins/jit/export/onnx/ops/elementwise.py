"""Arithmetic and functions of each element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from graphmill_plugins.jit.export.onnx.conversion import table

if TYPE_CHECKING:
    from graphmill_plugins.jit.export.onnx.conversion import Conversion, NodeConversion

CONVERSIONS, converts = table()

_SAME: Final = {
    "Abs": "Abs", "Acos": "Acos", "Acosh": "Acosh", "Add": "Add", "AddV2": "Add", "Asin": "Asin",
    "Asinh": "Asinh", "Atan": "Atan", "Atanh": "Atanh", "Ceil": "Ceil", "Cos": "Cos",
    "Cosh": "Cosh", "Elu": "Elu", "Erf": "Erf", "Exp": "Exp", "Floor": "Floor", "Log": "Log",
    "Maximum": "Max", "Minimum": "Min", "Mul": "Mul", "Neg": "Neg", "Pow": "Pow",
    "RealDiv": "Div", "Relu": "Relu", "Rint": "Round", "Round": "Round", "Selu": "Selu",
    "Sigmoid": "Sigmoid", "Sign": "Sign", "Sin": "Sin", "Sinh": "Sinh", "Softplus": "Softplus",
    "Softsign": "Softsign", "Sqrt": "Sqrt", "Sub": "Sub", "Tan": "Tan", "Tanh": "Tanh",
    "TruncateDiv": "Div",
}  # fmt: skip


def _same(op: str) -> Conversion:
    return lambda node: node.emit(op, *node.inputs)


CONVERSIONS.update({name: _same(op) for name, op in _SAME.items()})


@converts(
    "Identity", "StopGradient", "PreventGradient", "Snapshot", "EnsureShape", "CheckNumerics",
    "PlaceholderWithDefault",
)  # fmt: skip
def identity(node: NodeConversion) -> str:
    """Return the input; an ONNX model cannot check it."""
    return node.inputs[0]


@converts("IdentityN")
def identity_n(node: NodeConversion) -> list[str]:
    """Return the inputs."""
    return node.inputs


@converts("Cast")
def cast(node: NodeConversion) -> str:
    """Convert element types; as in TensorFlow, floats are truncated toward zero."""
    return node.cast(node.inputs[0], node.output_dtype())


@converts("AddN")
def add_n(node: NodeConversion) -> str:
    """Add all inputs."""
    total = node.inputs[0]
    for name in node.inputs[1:]:
        total = node.emit("Add", total, name)
    return total


@converts("Div")
def div(node: NodeConversion) -> str:
    """Divide; integers are truncated, as ONNX does."""
    return node.emit("Div", *node.inputs)


@converts("DivNoNan")
def div_no_nan(node: NodeConversion) -> str:
    """Divide, with 0 where the divisor is 0."""
    zero = node.constant(0, like=0)
    is_zero = node.emit("Equal", node.inputs[1], zero)
    return node.emit("Where", is_zero, zero, node.emit("Div", *node.inputs))


@converts("FloorDiv")
def floor_div(node: NodeConversion) -> str:
    """Divide and round down."""
    x, y = node.inputs
    if node.dtype().is_floating:
        return node.emit("Floor", node.emit("Div", x, y))
    return node.emit("Div", node.emit("Sub", x, node.emit("Mod", x, y)), y)


@converts("FloorMod")
def floor_mod(node: NodeConversion) -> str:
    """Return the remainder, which has the sign of the divisor."""
    x, y = node.inputs
    if not node.dtype().is_floating:
        return node.emit("Mod", x, y)
    rest, zero = node.emit("Mod", x, y, fmod=1), node.constant(0, like=0)
    differs = node.emit("Less", node.emit("Mul", rest, y), zero)
    return node.emit("Where", differs, node.emit("Add", rest, y), rest)


@converts("Mod", "TruncateMod")
def truncate_mod(node: NodeConversion) -> str:
    """Return the remainder, which has the sign of the dividend."""
    return node.emit("Mod", *node.inputs, fmod=1)


@converts("Square")
def square(node: NodeConversion) -> str:
    """Multiply by itself."""
    return node.emit("Mul", node.inputs[0], node.inputs[0])


@converts("SquaredDifference")
def squared_difference(node: NodeConversion) -> str:
    """Return the square of a difference."""
    difference = node.emit("Sub", *node.inputs)
    return node.emit("Mul", difference, difference)


@converts("Rsqrt")
def rsqrt(node: NodeConversion) -> str:
    """Return one over the square root."""
    return node.emit("Reciprocal", node.emit("Sqrt", node.inputs[0]))


@converts("Reciprocal", "Inv")
def reciprocal(node: NodeConversion) -> str:
    """Return one over the input."""
    return node.emit("Div", node.constant(1, like=0), node.inputs[0])


@converts("Relu6")
def relu6(node: NodeConversion) -> str:
    """Clip to 0 and 6."""
    return node.emit("Clip", node.inputs[0], node.constant(0, like=0), node.constant(6, like=0))


@converts("LeakyRelu")
def leaky_relu(node: NodeConversion) -> str:
    """Multiply negative numbers by a slope."""
    return node.emit("LeakyRelu", node.inputs[0], alpha=float(node.attr("alpha")))


@converts("ClipByValue")
def clip_by_value(node: NodeConversion) -> str:
    """Clip; the bounds need not be scalars."""
    value, low, high = node.inputs
    return node.emit("Max", node.emit("Min", value, high), low)


@converts("Log1p")
def log1p(node: NodeConversion) -> str:
    """Return log(1 + x), without loss of digits for a small x.

    Where 1 + x is rounded, x * log(1 + x) / ((1 + x) - 1) corrects it (Kahan).
    """
    x, one = node.inputs[0], node.constant(1, like=0)
    u = node.emit("Add", x, one)
    rounded = node.emit("Sub", u, one)
    log = node.emit("Log", u)
    exact = node.emit("Mul", log, node.emit("Div", x, rounded))
    plain = node.emit("Or", node.emit("Equal", u, one), node.emit("IsInf", u))
    at_ends = node.emit("Where", node.emit("IsInf", u), log, x)
    return node.emit("Where", plain, at_ends, exact)


@converts("Expm1")
def expm1(node: NodeConversion) -> str:
    """Return exp(x) - 1, without loss of digits for a small x: 2 sinh(x/2) exp(x/2)."""
    half = node.emit("Mul", node.inputs[0], node.constant(0.5, like=0))
    sinh = node.emit("Mul", node.emit("Sinh", half), node.constant(2, like=0))
    small = node.emit("Mul", sinh, node.emit("Exp", half))
    plain = node.emit("Sub", node.emit("Exp", node.inputs[0]), node.constant(1, like=0))
    is_small = node.emit("Less", node.emit("Abs", node.inputs[0]), node.constant(1, like=0))
    return node.emit("Where", is_small, small, plain)


@converts("Erfc")
def erfc(node: NodeConversion) -> str:
    """Return one minus the error function."""
    return node.emit("Sub", node.constant(1, like=0), node.emit("Erf", node.inputs[0]))


@converts("Cumsum", "Cumprod")
def cumulative(node: NodeConversion) -> str:
    """Return the cumulative sums along an axis."""
    if node.node.op.endswith("prod"):
        node.refuse("ONNX has no cumulative product")
    axis = node.constant(np.asarray(node.value(1, "the axis"), np.int64).reshape(()))
    flags = {name: int(node.attr(name)) for name in ("exclusive", "reverse")}
    return node.emit("CumSum", node.inputs[0], axis, **flags)


@converts("Softmax", "LogSoftmax")
def softmax(node: NodeConversion) -> str:
    """Normalize along the last axis."""
    return node.emit(node.node.op, node.inputs[0], axis=-1)
