"""Division and remainder. Semantics: tensorflow/core/kernels/cwise_ops.h.

Integer division by zero raises `InvalidArgumentError` for NumPy values. While a compiler traces,
values are unknown, so it is not detected and its result is undefined.
"""

from __future__ import annotations

import operator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import in_float32, is_narrow, is_numpy
from graphmill_plugins.kernels._tables import namespace_functions
from graphmill_plugins.kernels.math.elementwise import complex_log1p

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value

    Binary = Callable[[Value, Value], Value]

DIVISION = namespace_functions(
    __name__,
    {"RealDiv": ("true_divide", operator.truediv)},
    types=dtypes.FLOATING + dtypes.COMPLEX,
)


def _integer(xp: ArrayNamespace, divide: Binary) -> Binary:
    """Return `divide`, with a check of the divisor if values are concrete."""
    if not is_numpy(xp):
        return divide

    def checked(x: Value, y: Value) -> Value:
        if not (y.all() if y.ndim else y) and np.size(x):
            raise InvalidArgumentError("Integer division by zero")
        return divide(x, y)

    return checked


@kernel("Div", make=True)
def div(xp: ArrayNamespace, T: np.dtype[Any]) -> Binary:
    """Divide; integers round towards zero."""
    if T.kind in "iu":
        return _integer(xp, _truncating(xp, T))
    return operator.truediv if is_numpy(xp) else lambda x, y: xp.true_divide(x, y)


@kernel("TruncateDiv", types={"T": dtypes.REAL}, make=True)
def truncate_div(xp: ArrayNamespace, T: np.dtype[Any]) -> Binary:
    """Divide and round towards zero."""
    if T.kind in "iu":
        return _integer(xp, _truncating(xp, T))
    divide = in_float32(T, xp.true_divide)  # the quotient is rounded to T, then towards zero
    return lambda x, y: xp.trunc(divide(x, y))


def _truncating(xp: ArrayNamespace, T: np.dtype[Any]) -> Binary:
    if T.kind == "u":
        return lambda x, y: xp.floor_divide(x, y)
    if is_numpy(xp):
        return truncated_quotient
    # x - fmod(x, y) is a multiple of y, so the quotient is exact and is not rounded.
    return lambda x, y: xp.floor_divide(x - xp.fmod(x, y), y)


def truncated_quotient(x: Value, y: Value) -> Value:
    """Divide integers and round towards zero: add one to a negative quotient that is inexact."""
    quotient = np.floor_divide(x, y)
    is_inexact = quotient * y != x
    return quotient + (is_inexact & ((x < 0) != (y < 0)))


@kernel("FloorDiv", types={"T": dtypes.REAL}, make=True)
def floor_div(xp: ArrayNamespace, T: np.dtype[Any]) -> Binary:
    """Divide and round down; floats as floor(x / y), unlike NumPy's floor_divide."""
    if T.kind in "iu":
        return _integer(xp, operator.floordiv if is_numpy(xp) else xp.floor_divide)
    divide = in_float32(T, xp.true_divide)  # the quotient is rounded to T, then down
    return lambda x, y: xp.floor(divide(x, y))


@kernel("FloorMod", make=True)
def floor_mod(xp: ArrayNamespace, T: np.dtype[Any]) -> Binary:
    """Return the remainder that has the divisor's sign; a zero has the dividend's."""
    if T.kind in "iu":
        return _integer(xp, operator.mod if is_numpy(xp) else xp.remainder)
    return in_float32(T, _floored_remainder if is_numpy(xp) else xp.remainder)


def _floored_remainder(x: Value, y: Value) -> Value:
    rest = np.remainder(x, y)  # a zero has the divisor's sign
    is_zero = rest == 0
    return np.where(is_zero, np.copysign(rest, x), rest) if np.any(is_zero) else rest


@kernel("Mod", "TruncateMod", make=True)
def truncate_mod(xp: ArrayNamespace, T: np.dtype[Any]) -> Binary:
    """Return the remainder that has the dividend's sign."""
    if T.kind in "iu":
        return _integer(xp, xp.fmod)
    return in_float32(T, xp.fmod)


@kernel("DivNoNan", make=True)
def div_no_nan(xp: ArrayNamespace, T: np.dtype[Any]) -> Binary:
    """Compute x / y, and zero where y is zero."""
    zero = _zero(T)
    return in_float32(T, lambda x, y: xp.where(y == 0, zero, x / y))


@kernel("MulNoNan", make=True)
def mul_no_nan(xp: ArrayNamespace, T: np.dtype[Any]) -> Binary:
    """Compute x y, and zero where y is zero, even where x is infinite or NaN."""
    zero = _zero(T)
    return in_float32(T, lambda x, y: xp.where(y == 0, zero, x * y))


@kernel("Xdivy", make=True)
def xdivy(xp: ArrayNamespace, T: np.dtype[Any]) -> Binary:
    """Compute x / y, and zero where x is zero."""
    zero = _zero(T)
    return in_float32(T, lambda x, y: xp.where(x == 0, zero, x / y))


@kernel("Xlogy", make=True)
def xlogy(xp: ArrayNamespace, T: np.dtype[Any]) -> Binary:
    """Compute x log(y), and zero where x is zero; narrow floats are rounded after each step."""
    log = in_float32(T, xp.log)
    return lambda x, y: xp.where(x == 0, T.type(0), x * log(y))


@kernel("Xlog1py", make=True)
def xlog1py(xp: ArrayNamespace, T: np.dtype[Any]) -> Binary:
    """Compute x log(1 + y), and zero where x is zero; narrow floats are rounded after each step."""
    log1p = partial(complex_log1p, xp) if T.kind == "c" else in_float32(T, xp.log1p)
    return lambda x, y: xp.where(x == 0, T.type(0), x * log1p(y))


def _zero(T: np.dtype[Any]) -> Value:
    """Return a zero of the type in which the formula is computed."""
    return np.float32(0) if is_narrow(T) else T.type(0)
