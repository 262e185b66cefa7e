"""Comparisons, logic and selection."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._select import where_of
from graphmill_plugins.kernels._support import is_numpy, shape_text
from graphmill_plugins.kernels._tables import namespace_functions

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value

    Binary = Callable[[Value, Value], Value]

ORDER = namespace_functions(
    __name__,
    {
        "Less": ("less", operator.lt),
        "LessEqual": ("less_equal", operator.le),
        "Greater": ("greater", operator.gt),
        "GreaterEqual": ("greater_equal", operator.ge),
    },
)

LOGIC = namespace_functions(
    __name__,
    {
        "LogicalAnd": ("logical_and", operator.and_),
        "LogicalOr": ("logical_or", operator.or_),
        "LogicalNot": ("logical_not", operator.invert),
    },
)


@kernel("Equal", make=True)
def equal(xp: ArrayNamespace, T: np.dtype[Any], incompatible_shape_error: bool) -> Binary:
    """Compare with broadcasting.

    Shapes that do not broadcast are unequal, unless `incompatible_shape_error` is set.
    """
    return _equality(xp, xp.equal, operator.eq, T, incompatible_shape_error, otherwise=False)


@kernel("NotEqual", make=True)
def not_equal(xp: ArrayNamespace, T: np.dtype[Any], incompatible_shape_error: bool) -> Binary:
    """Compare with broadcasting.

    Shapes that do not broadcast are unequal, unless `incompatible_shape_error` is set.
    """
    return _equality(xp, xp.not_equal, operator.ne, T, incompatible_shape_error, otherwise=True)


def _equality(
    xp: ArrayNamespace,
    function: Binary,
    quick: Binary,
    T: np.dtype[Any],
    incompatible_shape_error: bool,
    *,
    otherwise: bool,
) -> Binary:
    if T.kind == "O":
        compare: Binary = lambda x, y: np.asarray(function(x, y), np.bool_)  # noqa: E731
    else:
        compare = quick if is_numpy(xp) else function
    if incompatible_shape_error:
        return compare

    def compare_any(x: Value, y: Value) -> Value:
        try:
            np.broadcast_shapes(x.shape, y.shape)
        except ValueError:
            return np.bool_(otherwise)
        return compare(x, y)

    return compare_any


@kernel("ApproximateEqual", types={"T": dtypes.NUMERIC})
def approximate_equal(xp: ArrayNamespace, x: Value, y: Value, *, tolerance: float) -> Value:
    """Return whether |x - y| <= tolerance, elementwise."""
    if x.shape != y.shape:
        raise InvalidArgumentError(
            f"x and y must be of the same shape, got {shape_text(x.shape)} and "
            f"{shape_text(y.shape)}"
        )
    return xp.abs(x - y) <= tolerance


@kernel("Select", make=True)
def select(xp: ArrayNamespace) -> Callable[[Value, Value, Value], Value]:
    """Choose between two values of one shape.

    The condition has their shape, or is a scalar, or is a vector that selects rows.
    Semantics: tensorflow/core/kernels/cwise_op_select.cc.
    """
    concrete = is_numpy(xp)
    where = where_of(xp)

    def choose(condition: Value, t: Value, e: Value) -> Value:
        shape = getattr(t, "shape", ())
        if shape != getattr(e, "shape", ()):
            raise InvalidArgumentError(
                "'then' and 'else' must have the same size, but received: "
                f"{shape_text(shape)} vs. {shape_text(e.shape)}"
            )
        if condition.ndim == 0 and concrete:
            return t if condition else e
        return where(_for_rows(condition, shape), t, e)

    return choose


def _for_rows(condition: Value, shape: tuple[int, ...]) -> Value:
    """Add dimensions to a vector that selects rows, so that it broadcasts along them."""
    if condition.shape == shape or condition.ndim == 0:
        return condition
    if condition.ndim == 1 and shape and condition.shape[0] == shape[0]:
        return condition.reshape(condition.shape + (1,) * (len(shape) - 1))
    raise InvalidArgumentError(
        f"the condition has shape {shape_text(condition.shape)}; for values of shape "
        f"{shape_text(shape)} it must be a scalar, of that shape, or a vector with one element for "
        "each row"
    )


@kernel("SelectV2", make=True)
def select_v2(xp: ArrayNamespace) -> Callable[[Value, Value, Value], Value]:
    """Choose between two values, with broadcasting of all three inputs."""
    where = where_of(xp)
    if not is_numpy(xp):
        return where

    def choose(condition: Value, t: Value, e: Value) -> Value:
        if condition.ndim == 0 and getattr(t, "shape", ()) == getattr(e, "shape", ()):
            return t if condition else e
        return where(condition, t, e)

    return choose


def _unlimited(xp: ArrayNamespace, limit: Value, infinite: float) -> Value:
    """Return limits in which NaN is replaced by infinity, so that it limits nothing."""
    if xp is np and (limit == limit if limit.ndim == 0 else (limit == limit).all()):
        return limit
    return xp.where(limit == limit, limit, limit.dtype.type(infinite))


@kernel("ClipByValue", types={"T": dtypes.NUMERIC})
def clip_by_value(xp: ArrayNamespace, t: Value, low: Value, high: Value) -> Value:
    """Clip `t` to [low, high]; limits are scalars or have the shape of `t`; `low` wins.

    Real and imaginary parts of complex numbers are clipped to those of the limits
    (tensorflow/core/kernels/cwise_op_clip.cc).
    """
    for limit in (low, high):
        if limit.ndim and limit.shape != t.shape:
            raise InvalidArgumentError(
                "clip_value_min and clip_value_max must be scalars or of the shape of the input "
                f"{shape_text(t.shape)}, got {shape_text(limit.shape)}"
            )
    if t.dtype.kind != "c":
        if t.dtype.kind not in "iu":
            low, high = _unlimited(xp, low, -np.inf), _unlimited(xp, high, np.inf)
        return xp.maximum(xp.minimum(t, high), low)
    real = xp.maximum(xp.minimum(xp.real(t), xp.real(high)), xp.real(low))
    imag = xp.maximum(xp.minimum(xp.imag(t), xp.imag(high)), xp.imag(low))
    return xp.stack([real, imag], -1).view(t.dtype)[..., 0]
