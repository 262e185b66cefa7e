"""The derivative of the lower incomplete gamma function with respect to `a`, on NumPy.

SciPy has none. The power series and the continued fraction of `igamma` are differentiated term by
term, in float64: `a` has an imaginary part so small that its square vanishes, and the imaginary
part of a result is the derivative times it. Semantics: Eigen's igamma_der_a_impl.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.spi import kernel
from graphmill.spi.kernels import cancellable
from graphmill_plugins._optional import import_optional

if TYPE_CHECKING:
    from graphmill.spi import Value

_EPS = float(np.finfo(np.float64).eps)
_TERMS = 2000
_MARGIN = 64
"""By how much smaller than the precision of the result the change of the last step must be."""
_BIG = 1 / _EPS
_STEP = 1e-100  # the imaginary part of `a`
_SERIES_BLOCK, _MAX_BLOCK = 1 << 12, 32
"""How many terms are computed at once, of all elements together, and of each."""
_FRACTION_BLOCK = 4  # convergents that are computed at once; they grow by less than 2**1000


@kernel("IgammaGradA", backend="numpy", types={"T": ["float32", "float64"]})
def igamma_grad_a(a: Value, x: Value, *, T: np.dtype[Any]) -> Value:
    """Compute d igamma(a, x) / da: 0 at x = 0, else NaN for a <= 0 or x < 0."""
    return slope_by_a(a, x, T).astype(T)


def slope_by_a(a: Value, x: Value, T: np.dtype[Any]) -> Value:
    """Return d igamma(a, x) / da in float64, as exact as a result of type T needs."""
    a64, x64 = (np.array(value) for value in np.broadcast_arrays(a.astype(float), x.astype(float)))
    largest = float(np.finfo(T).max)
    is_far = (a64 > 0) & (x64 > 0) & ((a64 >= largest) | (x64 >= largest))
    result = np.where((x64 == 0) | is_far, 0.0, np.nan)
    valid = (a64 > 0) & (x64 > 0) & ~is_far
    upper = valid & (x64 > 1) & (x64 > a64)
    lower = valid & ~upper
    # Float64 rounds each convergent, so that fewer than four units cannot be told from noise.
    tolerance = max(float(np.finfo(T).eps) / _MARGIN, 4 * _EPS)
    result[lower] = _series(a64[lower], x64[lower], tolerance)
    result[upper] = -_continued_fraction(a64[upper], x64[upper], tolerance)
    return result


def _series(a: Value, x: Value, tolerance: float) -> Value:
    """Differentiate x^a e^-x / Γ(a+1) Σ xⁿ / ((a+1) … (a+n))."""
    special: Any = import_optional("scipy.special")
    shifted = a + 1j * _STEP
    term, total = np.ones_like(shifted), np.ones_like(shifted)
    step = min(max(_SERIES_BLOCK // max(a.size, 1), 1), _MAX_BLOCK)
    for first in cancellable(range(1, _TERMS, step), 1):
        numbers = np.arange(first, first + step)[:, None]
        terms = term * np.cumprod(x / (shifted + numbers), axis=0)
        total += terms.sum(axis=0)
        term = terms[-1]
        if not (np.abs(term.imag) > tolerance * np.abs(total.imag)).any():
            break
    log_x = np.log(x)
    scale = np.exp(a * log_x - x - special.gammaln(a + 1))
    return scale * (total.real * (log_x - special.digamma(a + 1)) + total.imag / _STEP)


def _continued_fraction(a: Value, x: Value, tolerance: float) -> Value:
    """Differentiate the continued fraction of the upper function."""
    special: Any = import_optional("scipy.special")
    value = _fraction(a + 1j * _STEP, x, tolerance)
    log_x = np.log(x)
    scale = np.exp(a * log_x - x - special.gammaln(a))
    return scale * (value.real * (log_x - special.digamma(a)) + value.imag / _STEP)


def _fraction(a: Value, x: Value, tolerance: float) -> Value:
    """Return the continued fraction for complex `a`, by its convergents: numerator, denominator."""
    result, pending = np.empty_like(a), np.arange(a.size)
    y, z = 1 - a, x - a + 2
    before, last = np.stack([np.ones_like(a), x]), np.stack([x + 1, z * x])
    for first in cancellable(range(1, _TERMS, _FRACTION_BLOCK), 1):
        for count in range(first, first + _FRACTION_BLOCK):
            y, z = y + 1, z + 2
            before, last = last, last * z - before * (y * count)
        previous = _quotients(before, np.zeros_like(y))
        value = result[pending] = _quotients(last, previous)
        slope = value.imag
        moves = np.abs(slope - previous.imag) > tolerance * np.maximum(np.abs(slope), _STEP)
        if not moves.any():
            break
        pending, y, z = pending[moves], y[moves], z[moves]
        before, last = before[:, moves], last[:, moves]
        _rescale(before, last)
    return result


def _quotients(convergents: Value, otherwise: Value) -> Value:
    """Divide numerators by the denominators that are not zero."""
    numerators, denominators = convergents
    quotients: Value = otherwise.copy()
    np.divide(numerators, denominators, out=quotients, where=denominators != 0)
    return quotients


def _rescale(before: Value, last: Value) -> None:
    """Divide large convergents by a power of two, in place, before they overflow."""
    is_big = np.abs(last[0].real) > _BIG
    if is_big.any():
        exponents = np.frexp(last[0].real)[1]
        scale = np.ldexp(1.0, np.where(is_big, -exponents, 0))
        before *= scale
        last *= scale
