"""Activation kernels over any array namespace: Relu and variants, Softplus, softmaxes.

Semantics: tensorflow/core/kernels/relu_op_functor.h, softplus_op.h, softsign_op.h,
softmax_op_functor.h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes, errors
from graphmill.spi import kernel
from graphmill_plugins.kernels._select import where_of
from graphmill_plugins.kernels._support import is_numpy, widen
from graphmill_plugins.kernels.small_axis import are_short, columns_of, rows_of
from graphmill_plugins.kernels.small_axis import log_softmax as short_log_softmax

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value

SELU_SCALE = 1.0507009873554804934193349852946
SELU_SCALE_ALPHA = 1.7580993408473768599402175208123
_TAYLOR = (1 / 362880, 1 / 40320, 1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2)
_MAX_NEAR = np.float32(0.5)  # so far the series has all digits of a float32
_MIN_CLIPPED_SIZE = 2048  # elements; for fewer, the call of `clip` takes longer


def _expm1_of_negative(xp: ArrayNamespace, x: Value) -> Value:
    """Return exp(x) - 1 of numbers that are not positive.

    Compilers vectorize a polynomial and `exp` in short loops, too, but not `expm1`.
    """
    if is_numpy(xp) or x.dtype != np.float32:
        return xp.expm1(x)
    is_near = x > -_MAX_NEAR
    near = xp.where(is_near, x, np.float32(0))  # no overflow, of which a derivative would be NaN
    series = xp.full_like(near, _TAYLOR[0])
    for factor in _TAYLOR[1:]:
        series = series * near + np.float32(factor)
    return xp.where(is_near, near + near * near * series, xp.exp(x) - np.float32(1))


@kernel("Relu", types={"T": dtypes.REAL})
def relu(xp: ArrayNamespace, features: Value) -> Value:
    """Return max(features, 0)."""
    zero = features.dtype.type(0)
    if is_numpy(xp) and features.size >= _MIN_CLIPPED_SIZE and features.dtype.char in "fd":
        # NumPy vectorizes `maximum` of two arrays, and `clip`, but not `maximum` with a scalar.
        return features.clip(zero, features.dtype.type(np.inf))
    return xp.maximum(features, zero)


@kernel("Relu6", types={"T": dtypes.REAL})
def relu6(xp: ArrayNamespace, features: Value) -> Value:
    """Return min(max(features, 0), 6)."""
    one = features.dtype.type
    if features.dtype.kind == "V":  # NumPy's clip widens the types of ml_dtypes.
        return xp.minimum(xp.maximum(features, one(0)), one(6))
    return xp.clip(features, one(0), one(6))


@kernel("LeakyRelu", make=True, types={"T": dtypes.FLOATING})
def leaky_relu(xp: ArrayNamespace, alpha: float, T: np.dtype[Any]) -> Any:
    """Return features where they are positive, alpha * features elsewhere."""
    slope, zero, where = T.type(alpha), T.type(0), where_of(xp)
    if is_numpy(xp) and 0 < alpha <= 1 and T.kind == "f":
        return lambda features: np.maximum(features, features * slope)
    return lambda features: where(features > zero, features, features * slope)


@kernel("Elu", types={"T": dtypes.FLOATING})
def elu(xp: ArrayNamespace, features: Value) -> Value:
    """Return exp(features) - 1 where they are negative, features elsewhere."""
    zero, where = features.dtype.type(0), where_of(xp)
    return where(features < zero, _expm1_of_negative(xp, xp.minimum(features, zero)), features)


@kernel("Selu", types={"T": dtypes.FLOATING})
def selu(xp: ArrayNamespace, features: Value) -> Value:
    """Return the scaled exponential linear unit."""
    one = features.dtype.type
    scale, scale_alpha, zero = one(SELU_SCALE), one(SELU_SCALE_ALPHA), one(0)
    negative = scale_alpha * _expm1_of_negative(xp, xp.minimum(features, zero))
    return where_of(xp)(features < zero, negative, scale * features)


@kernel("Softplus", types={"T": dtypes.FLOATING})
def softplus(xp: ArrayNamespace, features: Value) -> Value:
    """Return log(exp(features) + 1), without overflow."""
    zero = features.dtype.type(0)
    if xp is np:  # a tenth of the time of NumPy's logaddexp
        return np.maximum(features, zero) + np.log1p(np.exp(-np.abs(features)))
    return xp.logaddexp(features, zero)


@kernel("Softsign", types={"T": dtypes.FLOATING})
def softsign(xp: ArrayNamespace, features: Value) -> Value:
    """Return features / (|features| + 1)."""
    return features / (xp.abs(features) + features.dtype.type(1))


def _check_logits(logits: Value) -> None:
    if logits.ndim < 1:
        raise errors.InvalidArgumentError(
            f"logits must have >= 1 dimension, got shape {list(logits.shape)}"
        )


@kernel("Softmax", types={"T": dtypes.FLOATING})
def softmax(xp: ArrayNamespace, logits: Value) -> Value:
    """Return exp(logits) over its sum, along the last axis."""
    _check_logits(logits)
    if logits.size == 0:
        return logits
    dtype = logits.dtype
    if xp is np and widen(dtype) == dtype:
        if are_short(logits):
            columns = columns_of(logits)
            columns -= columns.max(axis=0)
            np.exp(columns, out=columns)
            columns /= columns.sum(axis=0)
            return rows_of(columns, logits.shape)
        powers = logits - np.max(logits, axis=-1, keepdims=True)
        np.exp(powers, out=powers)
        powers /= np.sum(powers, axis=-1, keepdims=True)
        return powers
    wide = logits.astype(widen(dtype))
    powers = xp.exp(wide - xp.max(wide, axis=-1, keepdims=True))
    return (powers / xp.sum(powers, axis=-1, keepdims=True)).astype(dtype)


@kernel("LogSoftmax", types={"T": dtypes.FLOATING})
def log_softmax(xp: ArrayNamespace, logits: Value) -> Value:
    """Return logits - log(sum(exp(logits))), along the last axis."""
    _check_logits(logits)
    if logits.size == 0:
        return logits
    dtype = logits.dtype
    return log_probabilities(xp, logits.astype(widen(dtype))).astype(dtype, copy=False)


def log_probabilities(xp: ArrayNamespace, logits: Value) -> Value:
    """Return logits - log(sum(exp(logits))) along the last axis, in the type of the logits."""
    if is_numpy(xp) and are_short(logits):
        return short_log_softmax(logits)
    shifted = logits - xp.max(logits, axis=-1, keepdims=True)
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=-1, keepdims=True))
