"""Elementwise arithmetic: operators, functions of one value, gradients.

Integer overflow wraps silently, as in TensorFlow; invalid floats give nan and inf. The executor
switches NumPy's floating point warnings off once per step, so kernels do not.
"""

from __future__ import annotations

import functools
import operator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import (
    in_float32,
    is_numpy,
    object_array,
    shape_text,
)
from graphmill_plugins.kernels._tables import functions_in_float32, namespace_functions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from graphmill.spi import ArrayNamespace, Value

_GROUP: Final = 8  # the number of inputs that TensorFlow's AddN adds at a time


def _power(x: Value, y: Value) -> Value:
    """Raise to a power; NumPy computes x**0.5 as sqrt(x), which differs at -inf and -0."""
    powers: Value = x**y
    if y.ndim == 0 and y == 0.5 and powers.dtype.kind == "f":
        powers = powers + powers.dtype.type(0)
        is_negative_infinity = x == -np.inf
        if is_negative_infinity.any():
            powers = np.where(is_negative_infinity, powers.dtype.type(np.inf), powers)
    return powers


ARITHMETIC = namespace_functions(
    __name__,
    {
        "Add": ("add", operator.add),
        "AddV2": ("add", operator.add),
        "Sub": ("subtract", operator.sub),
        "Mul": ("multiply", operator.mul),
        "Neg": ("negative", operator.neg),
        "Abs": ("abs", operator.abs),
        "Pow": ("power", _power),
        "Maximum": "maximum",
        "Minimum": "minimum",
        "Square": "square",
    },
    types=dtypes.NUMERIC,
)

_TRANSCENDENTAL = {
    "Exp": "exp",
    "Expm1": "expm1",
    "Log": "log",
    "Log1p": "log1p",
    "Sin": "sin",
    "Cos": "cos",
    "Tan": "tan",
    "Asin": "arcsin",
    "Acos": "arccos",
    "Atan": "arctan",
    "Atan2": "arctan2",
    "Sinh": "sinh",
    "Cosh": "cosh",
    "Tanh": "tanh",
    "Asinh": "arcsinh",
    "Acosh": "arccosh",
    "Atanh": "arctanh",
}
FLOAT_FUNCTIONS = namespace_functions(
    __name__,
    {
        **{op: name for op, name in _TRANSCENDENTAL.items() if op != "Log1p"},
        "Sqrt": "sqrt",
        "Floor": "floor",
        "Ceil": "ceil",
        "Rint": "rint",
        "Reciprocal": "reciprocal",
        "Inv": "reciprocal",
        "NextAfter": "nextafter",
    },
    types=dtypes.FLOATING + dtypes.COMPLEX,
)
LOG1P = namespace_functions(__name__, {"Log1p": "log1p"}, types=dtypes.FLOATING)


@kernel("Log1p", types={"T": dtypes.COMPLEX})
def complex_log1p(xp: ArrayNamespace, x: Value) -> Value:
    """Compute log(1 + x) of complex numbers; NaN if `x` is not finite, except positive infinity.

    TensorFlow's formula, x log(1 + x) / ((1 + x) - 1), gives these values.
    """
    is_positive_infinity = (xp.real(x) == np.inf) & (xp.imag(x) == 0)
    undefined = x.dtype.type(complex(np.nan, np.nan))
    return xp.where(xp.isfinite(x), xp.log1p(x), xp.where(is_positive_infinity, x, undefined))


# ml_dtypes loops over bfloat16 elements; NumPy takes a tenth of the time in float32.
BFLOAT16_FUNCTIONS = functions_in_float32(
    __name__,
    {op: partial(getattr, np, name) for op, name in _TRANSCENDENTAL.items()},
    backend="numpy",
    types=(dtypes.bfloat16,),
)

PREDICATES = namespace_functions(
    __name__, {"IsNan": "isnan", "IsInf": "isinf", "IsFinite": "isfinite"}
)

BITS = namespace_functions(
    __name__,
    {
        "Invert": ("invert", operator.invert),
        "BitwiseAnd": ("bitwise_and", operator.and_),
        "BitwiseOr": ("bitwise_or", operator.or_),
        "BitwiseXor": ("bitwise_xor", operator.xor),
    },
)


@kernel("PopulationCount", make=True)
def population_count(xp: ArrayNamespace, T: np.dtype[Any]) -> Callable[[Value], Value]:
    """Count the set bits; negative numbers in two's complement."""
    unsigned = np.dtype(f"u{T.itemsize}")
    return lambda x: xp.bitwise_count(x.view(unsigned)).astype(np.uint8)


@kernel("Add", types={"T": [dtypes.string]}, host=True)
def add_strings(x: Value, y: Value) -> Value:
    """Concatenate strings element by element, with broadcasting."""
    return object_array(np.add(x, y))


@kernel("Round", make=True)
def round_(xp: ArrayNamespace, T: np.dtype[Any]) -> Callable[[Value], Value]:
    """Round half to even; integers stay unchanged (TensorFlow 2.21 returns zeros)."""
    if T.kind in "iu":
        return _same
    rint: Callable[[Value], Value] = xp.rint
    return rint


def _same(x: Value) -> Value:
    return x


@kernel("Sign", types={"T": dtypes.NUMERIC}, make=True)
def sign(xp: ArrayNamespace, T: np.dtype[Any]) -> Callable[[Value], Value]:
    """Return -1, 0 or 1; a zero is positive."""
    function: Callable[[Value], Value] = xp.sign
    if T.kind in "iuc" or (is_numpy(xp) and T.kind == "f"):
        return function
    return lambda x: xp.where(x == 0, T.type(0), function(x))


@kernel("Rsqrt", make=True)
def rsqrt(xp: ArrayNamespace, T: np.dtype[Any]) -> Callable[[Value], Value]:
    """Compute 1 / sqrt(x)."""
    if T.kind == "c":
        return partial(_complex_rsqrt, xp)
    return in_float32(T, lambda x: xp.reciprocal(xp.sqrt(x)))


def _complex_rsqrt(xp: ArrayNamespace, x: Value) -> Value:
    """Return Eigen's value at infinity, and of real numbers whatever the sign of their zero."""
    value = 1 / xp.sqrt(xp.where(x.imag == 0, x.real, x))
    return xp.where(xp.isinf(x), 0, value)


@kernel("Sigmoid", make=True)
def sigmoid(xp: ArrayNamespace, T: np.dtype[Any]) -> Callable[[Value], Value]:
    """Compute 1 / (1 + exp(-x)); zero where the exponential of a complex number overflows."""
    if not is_numpy(xp):
        return in_float32(T, lambda x: xp.reciprocal(1 + xp.exp(-x)))
    return _complex_sigmoid if T.kind == "c" else in_float32(T, numpy_sigmoid)


def _complex_sigmoid(x: Value) -> Value:
    y = np.exp(-x) + 1
    return np.where(np.isinf(y), x.dtype.type(0), np.reciprocal(y))


def numpy_sigmoid(x: Value) -> Value:
    """Compute the sigmoid of a NumPy value with a single temporary array."""
    y = -x
    if not isinstance(y, np.ndarray):
        return np.reciprocal(np.exp(y) + 1)
    np.exp(y, out=y)
    y += 1
    return np.divide(1, y, out=y)  # which NumPy vectorizes, unlike `reciprocal`


@kernel("SquaredDifference", make=True)
def squared_difference(xp: ArrayNamespace, T: np.dtype[Any]) -> Callable[[Value, Value], Value]:
    """Compute (x - y)², for complex numbers (x - y) times its conjugate."""
    if T.kind == "c":
        return lambda x, y: (x - y) * xp.conj(x - y)
    return lambda x, y: xp.square(x - y)


@kernel("LeftShift", make=True)
def left_shift(xp: ArrayNamespace, T: np.dtype[Any]) -> Callable[[Value, Value], Value]:
    """Shift left by y clamped to [0, bits). Semantics: tensorflow/core/kernels/cwise_ops.h."""
    last = T.type(T.itemsize * 8 - 1)
    return lambda x, y: xp.left_shift(x, xp.minimum(xp.maximum(y, T.type(0)), last))


@kernel("RightShift", make=True)
def right_shift(xp: ArrayNamespace, T: np.dtype[Any]) -> Callable[[Value, Value], Value]:
    """Shift right (arithmetically if signed) by y clamped to [0, bits)."""
    last = T.type(T.itemsize * 8 - 1)
    return lambda x, y: xp.right_shift(x, xp.minimum(xp.maximum(y, T.type(0)), last))


@kernel("AddN", "AccumulateNV2", types={"T": dtypes.NUMERIC}, make=True)
def add_n(xp: ArrayNamespace) -> Callable[[list[Value]], Value]:
    """Add arrays of one shape in TensorFlow's order, so that sums are rounded identically."""
    return numpy_total if is_numpy(xp) else _total


def _groups(inputs: list[Value]) -> Iterator[list[Value]]:
    """Yield the groups of inputs whose sums TensorFlow adds: eight each, the rest first.

    Semantics: tensorflow/core/kernels/aggregate_ops.cc.
    """
    rest = len(inputs) % _GROUP
    end = rest if rest > 1 else rest + _GROUP
    yield inputs[:end]
    for start in range(end, len(inputs), _GROUP):
        yield inputs[start : start + _GROUP]


def _check_same_shapes(inputs: list[Value]) -> None:
    first = inputs[0].shape
    for index, value in enumerate(inputs):
        if value.shape != first:
            raise InvalidArgumentError(
                f"Inputs must have the same shape. Input 0: {shape_text(first)} != "
                f"input {index}: {shape_text(value.shape)}"
            )


def _total(inputs: list[Value]) -> Value:
    _check_same_shapes(inputs)
    return functools.reduce(
        operator.add, (functools.reduce(operator.add, group) for group in _groups(inputs))
    )


def numpy_total(inputs: list[Value]) -> Value:
    """Add NumPy values of one shape, into new arrays."""
    _check_same_shapes(inputs)
    if len(inputs) <= _GROUP + 1:
        return _sum_of_group(inputs)
    first, *others = _groups(inputs)
    total = _sum_of_group(first)
    for group in others:
        total += _sum_of_group(group)
    return total


def _sum_of_group(inputs: list[Value]) -> Value:
    if len(inputs) == 1:
        return inputs[0]
    total = inputs[0] + inputs[1]
    for value in inputs[2:]:
        total += value
    return total
