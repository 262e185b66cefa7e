"""Incomplete gamma functions and their derivatives by the shape, on JAX.

For x <= max(a, 1) they are a power series, else Legendre's continued fraction. XLA's functions
compute both forms for all elements, going forwards until every element has converged, with an array
for each part of a convergent. Here the number of terms follows from the extreme arguments of the
form, so that it is zero for a form that no element needs, and the terms are combined backwards, in
one array: s ← 1 + x / (a + n) s, and t ← b + n (a - n) / t.

All is computed in float64, because float32 loses all digits in the logarithm of a large gamma
function.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from graphmill_plugins._lazy_jax import jax, jnp, lax
from graphmill_plugins.kernels._tables import functions_in_float32

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import Value

_LIMIT: Final = 1e4  # of both arguments
_MARGIN: Final = 64  # by how much smaller than the precision of the result an omitted term is
_UNROLLED: Final = 8  # terms in an iteration, which XLA fuses to one loop over the elements
_SPARE: Final = 8  # terms of the fraction more than its asymptotic estimate
_SHIFT: Final = 8  # Stirling's series is used from here on
# Stirling's series of the logarithm of the gamma function, in 1 / z and powers of 1 / z².
_STIRLING: Final = (
    *(1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156),
    -3617 / 122400,
)
_HALF_LOG_2_PI: Final = 0.9189385332046727


class _Arguments(NamedTuple):
    """Arguments in float64 for which both forms terminate, and where the fraction is used."""

    a: Value
    x: Value
    is_upper: Value
    digits: float  # of the result, as a natural logarithm


class _Form(NamedTuple):
    """A value and its derivative by `a`."""

    value: Value
    slope: Value


def _arguments(a: Value, x: Value, terminates: Value) -> _Arguments:
    digits = -float(np.log(np.finfo(a.dtype).eps / _MARGIN))
    a, x = (jnp.where(terminates, value, 1).astype(np.float64) for value in (a, x))
    return _Arguments(a, x, (x > 1) & (x > a), digits)


def _terminates(a: Value, x: Value) -> Value:
    """Return a mask of arguments for which the number of terms is small."""
    return (a > 0) & (a <= _LIMIT) & (x > 0) & (x <= _LIMIT)


def _largest(values: Value, mask: Value) -> Value:
    return jnp.max(jnp.where(mask, values, 0), initial=0)


def _backwards(terms: Value, start: Callable[[Value], Any], step: Callable[..., Any]) -> Any:
    """Combine at least `terms` terms, from the last one to the first."""
    blocks = jnp.ceil(terms / _UNROLLED)

    def block(index: Value, state: Any) -> Any:
        last = (blocks - index) * _UNROLLED
        for back in range(_UNROLLED):
            state = step(last - back, state)
        return state

    return lax.fori_loop(0, blocks.astype(np.int32), block, start(blocks * _UNROLLED))


def _series(at: _Arguments, *, with_slope: bool) -> _Form:
    """Compute s = Σ xⁿ / ((a+1) … (a+n)), and its derivative by `a`.

    For x <= a the term n is at most exp(-n² / (2a + n)).
    """
    a, x, is_upper, digits = at
    widest = _largest(a, ~is_upper)
    terms = jnp.where(widest > 0, (digits + jnp.sqrt(digits**2 + 8 * digits * widest)) / 2, 0)

    def step(n: Value, state: tuple[Value, ...]) -> tuple[Value, ...]:
        factor = x / (a + n)
        value = 1 + factor * state[0]
        return (value, factor * (state[1] - state[0] / (a + n))) if with_slope else (value,)

    def start(_: Value) -> tuple[Value, ...]:
        return (jnp.ones_like(a), jnp.zeros_like(a))[: 1 + with_slope]

    value, *slope = _backwards(terms, start, step)
    return _Form(value, slope[0] if with_slope else None)


def _fraction(at: _Arguments, *, with_slope: bool) -> _Form:
    """Compute the fraction 1 / (x+1-a - 1(1-a) / (x+3-a - …)), and its derivative by `a`.

    After n terms its error is about exp(-4 √(nx)) for small `a`, and exp(-4/3 √(n³/x)) for `a`
    close to a large `x`. It begins with the value of a fraction whose terms equal the last.
    """
    a, x, is_upper, digits = at
    terms = digits**2 / 16 * _largest(1 / x, is_upper)
    terms += (0.75 * digits) ** (2 / 3) * jnp.cbrt(_largest(a, is_upper))
    terms = jnp.where(terms > 0, terms + _SPARE, 0)
    base = x + 1 - a

    def start(n: Value) -> tuple[Value, ...]:
        root = jnp.sqrt(4 * n * (x + 1) + base * base)
        return ((base + 2 * n + root) / 2, -(1 + base / root) / 2)[: 1 + with_slope]

    def step(n: Value, state: tuple[Value, ...]) -> tuple[Value, ...]:
        inverse = 1 / state[0]
        part = n * inverse
        value = base + 2 * (n - 1) + part * (a - n)
        return (value, part - 1 - part * (a - n) * inverse * state[1]) if with_slope else (value,)

    value, *slope = _backwards(terms, start, step)
    return _Form(1 / value, -slope[0] / (value * value) if with_slope else None)


def _polynomial(coefficients: Sequence[float], x: Value) -> Value:
    """Evaluate a polynomial, lowest power first."""
    total = jnp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = total * x + coefficient
    return total


def _rising_factorial(a: Value) -> _Form:
    """Compute (a+1) … (a+_SHIFT-1), and its derivative."""
    value, slope = a + 1, jnp.ones_like(a)
    for k in range(2, _SHIFT):
        slope = slope * (a + k) + value
        value = value * (a + k)
    return _Form(value, slope)


def _scale(a: Value, x: Value) -> Value:
    """Compute x^a e^-x / Γ(a+1); the gamma function by Stirling's series at a + _SHIFT."""
    z = a + _SHIFT
    inverse = 1 / z
    log_gamma = (_SHIFT - 0.5) * jnp.log(z) + _HALF_LOG_2_PI
    log_gamma += inverse * _polynomial(_STIRLING, inverse * inverse)
    return jnp.exp(a * jnp.log(x * inverse) + (z - x) - log_gamma) * _rising_factorial(a).value


def _digamma_of_next(a: Value) -> Value:
    """Compute ψ(a+1) by the derivative of Stirling's series at a + _SHIFT."""
    z, factorial = a + _SHIFT, _rising_factorial(a)
    square = 1 / (z * z)
    slopes = [-(2 * n + 1) * value for n, value in enumerate(_STIRLING)]
    stirling = jnp.log(z) - 0.5 / z + square * _polynomial(slopes, square)
    return stirling - factorial.slope / factorial.value


def _probabilities(a: Value, x: Value, terminates: Value) -> tuple[Value, Value, Value]:
    """Return the lower function, the upper one, and a mask of where the latter is to be used."""
    at = _arguments(a, x, terminates)
    scale = _scale(at.a, at.x)
    lower = scale * _series(at, with_slope=False).value
    upper = scale * at.a * _fraction(at, with_slope=False).value
    return lower, upper, at.is_upper


def _log_slope(a: Value, x: Value, terminates: Value) -> tuple[Value, _Arguments]:
    """Return the derivative of the lower function by `a`, divided by x^a e^-x / Γ(a)."""
    at = _arguments(a, x, terminates)
    lower, upper = _series(at, with_slope=True), _fraction(at, with_slope=True)
    log_x, digamma = jnp.log(at.x), _digamma_of_next(at.a)
    slope = (lower.value * (log_x - digamma) + lower.slope) / at.a
    complement = upper.value * (log_x - digamma + 1 / at.a) + upper.slope
    return jnp.where(at.is_upper, -complement, slope), at


def _igamma_grad(a: Value, x: Value) -> Value:
    a, x = jnp.broadcast_arrays(a, x)
    terminates = _terminates(a, x)
    slope, at = _log_slope(a, x, terminates)
    return jnp.where(terminates, slope * _scale(at.a, at.x) * at.a, _far_slope(a, x)).astype(
        a.dtype
    )


def sample_slope(a: Value, x: Value) -> Value:
    """Compute the derivative by `a` of the `x` at which the lower function has a fixed value.

    It is the negative derivative of the function by `a`, divided by the one by `x`.

    Args:
        a: float32 or float64.
        x: of the same shape and dtype.
    """
    terminates = _terminates(a, x)
    slope, at = _log_slope(a, x, terminates)
    return jnp.where(terminates, -slope * at.x, _far_slope(a, x)).astype(a.dtype)


def _far_slope(a: Value, x: Value) -> Value:
    """Return TensorFlow's derivatives by `a` where the number of terms would be large."""
    return jnp.where((x == 0) | ((a > 0) & (x >= 0)), 0.0, jnp.nan)


def _incomplete_gamma(a: Value, x: Value, *, is_lower: bool) -> Value:
    """Compute an incomplete gamma function with TensorFlow's values at the edges.

    It is NaN for a <= 0, except that the lower function is 0 at x = 0. An infinite `a` gives the
    value at x = 0.
    """
    terminates = _terminates(a, x)
    lower, upper, is_upper = _probabilities(a, x, terminates)
    if is_lower:
        value, far = jnp.where(is_upper, 1 - upper, lower), x > a
    else:
        value, far = jnp.where(is_upper, upper, 1 - lower), x <= a
    value = jnp.where(terminates, value, far).astype(a.dtype)  # far from zero, a step at x = a
    is_undefined = ~((a > 0) & (x >= 0)) | (jnp.isinf(a) & jnp.isinf(x))
    value = jnp.where(is_undefined, jnp.nan, value)
    return jnp.where(x == 0, 0, value) if is_lower else value


@cache  # JAX is imported when a kernel is first traced
def _differentiable(*, is_lower: bool) -> Callable[[Value, Value], Value]:
    """Return the function of broadcast arguments with its derivatives, for exported programs."""

    @jax.custom_jvp  # type: ignore[untyped-decorator]
    def function(a: Value, x: Value) -> Value:
        return _incomplete_gamma(a, x, is_lower=is_lower)

    @function.defjvp  # type: ignore[untyped-decorator]
    def tangent(primals: Any, tangents: Any) -> tuple[Value, Value]:
        a, x = primals
        density = jnp.exp((a - 1) * jnp.log(x) - x - lax.lgamma(a))
        change = _igamma_grad(a, x) * tangents[0] + density * tangents[1]
        return function(a, x), change if is_lower else -change

    return lambda a, x: function(*jnp.broadcast_arrays(a, x))


SPECIAL = functions_in_float32(
    __name__,
    {
        "Igamma": lambda: _differentiable(is_lower=True),
        "Igammac": lambda: _differentiable(is_lower=False),
        "IgammaGradA": lambda: _igamma_grad,
    },
    backend="jax",
)
