"""Sequences: Range and LinSpace. Semantics: tensorflow/core/kernels/sequence_ops.cc."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import check_size, shape_text

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value


@kernel("Range", static=("start", "limit", "delta"))
def range_(
    _xp: ArrayNamespace, start: Value, limit: Value, delta: Value, *, Tidx: np.dtype[Any]
) -> Value:
    """Count from `start` towards `limit` in steps of `delta`.

    The result is a NumPy array, also while a compiler traces, because all inputs are static.

    Raises:
        InvalidArgumentError: delta is zero, or leads away from the limit.
    """
    for name, value in (("start", start), ("limit", limit), ("delta", delta)):
        if value.shape not in ((), (1,)):  # a vector of one element counts as a scalar
            raise InvalidArgumentError(
                f"{name} must be a scalar, not of shape {shape_text(value.shape)}"
            )
    first, last, step = start.item(), limit.item(), delta.item()
    if step == 0:
        raise InvalidArgumentError(f"Requires delta != 0: {step}")
    if first != last and (first < last) != (step > 0):
        relation = "start <= limit when delta > 0" if step > 0 else "start >= limit when delta < 0"
        raise InvalidArgumentError(f"Requires {relation}: {first}/{last}")
    if Tidx.kind in "iu":
        check_size((-(-abs(last - first) // abs(step)),), itemsize=Tidx.itemsize)
        return np.arange(first, last, step, dtype=Tidx)
    return _accumulated(start.reshape(()), limit.reshape(()), delta.reshape(()), Tidx)


def _accumulated(start: Value, limit: Value, delta: Value, dtype: np.dtype[Any]) -> Value:
    """Add `delta` repeatedly in `dtype`, so that rounding errors are the same as in TensorFlow."""
    steps = abs((limit - start) / delta)
    if not np.isfinite(steps):
        raise InvalidArgumentError(f"Requires ((limit - start) / delta) to be finite, got {steps}")
    check_size((math.ceil(steps),), itemsize=dtype.itemsize)
    terms = np.full(math.ceil(steps), delta, dtype)
    terms[:1] = start
    return np.add.accumulate(terms, 0, dtype)


@kernel("LinSpace", static=("start", "stop", "num"))
def lin_space(
    _xp: ArrayNamespace, start: Value, stop: Value, num: Value, *, T: np.dtype[Any]
) -> Value:
    """Return `num` evenly spaced values from `start` to `stop`, both included.

    The result is a NumPy array, also while a compiler traces, because all inputs are static.

    Raises:
        InvalidArgumentError: `num` is not positive.
    """
    for name, value in (("start", start), ("stop", stop), ("num", num)):
        if value.ndim:
            raise InvalidArgumentError(
                f"{name} must be a scalar, not shape {shape_text(value.shape)}"
            )
    count = num.item()
    if count <= 0:
        raise InvalidArgumentError(f"Requires num > 0: {count}")
    check_size((count,), itemsize=T.itemsize)
    first, last = start.reshape(()), stop.reshape(())
    if count == 1:
        return np.full(1, first, T)
    with np.errstate(invalid="ignore"):  # the ends may be infinite
        step = T.type(last - first) / T.type(count - 1)
        values = np.arange(count, dtype=T) if T.kind == "f" else np.arange(count).astype(T)
        values *= step
        values += T.type(first)
    values[0], values[-1] = first, last
    return values
