"""The derivative of the lower incomplete gamma function with respect to `a`, on NumPy.

SciPy has none. The power series and the continued fraction of `igamma` are differentiated term by
term, in float64. Semantics: Eigen's igamma_der_a_impl.
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


@kernel("IgammaGradA", backend="numpy", types={"T": ["float32", "float64"]})
def igamma_grad_a(a: Value, x: Value, *, T: np.dtype[Any]) -> Value:
    """Compute d igamma(a, x) / da: 0 at x = 0, else NaN for a <= 0 or x < 0."""
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
    return result.astype(T)


def _series(a: Value, x: Value, tolerance: float) -> Value:
    """Differentiate x^a e^-x / Γ(a+1) Σ xⁿ / ((a+1) … (a+n))."""
    special: Any = import_optional("scipy.special")
    term, total = np.ones_like(a), np.ones_like(a)
    d_term, d_total = np.zeros_like(a), np.zeros_like(a)
    r = a.copy()
    for _ in cancellable(range(_TERMS), 1):
        r += 1
        factor = x / r
        d_term = factor * d_term - factor / r * term
        term = factor * term
        d_total += d_term
        total += term
        if not (np.abs(d_term) > tolerance * np.abs(d_total)).any():
            break
    log_x = np.log(x)
    scale = np.exp(a * log_x - x - special.gammaln(a + 1))
    return scale * (total * (log_x - special.digamma(a + 1)) + d_total)


def _continued_fraction(a: Value, x: Value, tolerance: float) -> Value:
    """Differentiate the continued fraction of the upper function, by its convergents p / q."""
    special: Any = import_optional("scipy.special")
    y, z, count = 1 - a, x - a + 2, np.zeros_like(a)
    # Suffix 1 is the last convergent, 2 the one before; prefix d marks derivatives by `a`.
    p2, q2, p1, q1 = np.ones_like(a), x.copy(), x + 1, z * x
    dp2, dq2, dp1, dq1 = np.zeros_like(a), np.zeros_like(a), np.zeros_like(a), -x
    value = p1 / q1
    slope = (dp1 - value * dq1) / q1
    for _ in cancellable(range(_TERMS), 1):
        count, y, z = count + 1, y + 1, z + 2
        yc = y * count
        p, q = p1 * z - p2 * yc, q1 * z - q2 * yc
        dp = dp1 * z - p1 - dp2 * yc + p2 * count
        dq = dq1 * z - q1 - dq2 * yc + q2 * count
        value = np.where(q != 0, p / np.where(q != 0, q, 1), value)
        previous, slope = slope, np.where(q != 0, (dp - value * dq) / np.where(q != 0, q, 1), slope)
        p2, p1, q2, q1, dp2, dp1, dq2, dq1 = p1, p, q1, q, dp1, dp, dq1, dq
        shrink = np.where(np.abs(p) > _BIG, _EPS, 1.0)
        p2, p1, q2, q1 = p2 * shrink, p1 * shrink, q2 * shrink, q1 * shrink
        dp2, dp1, dq2, dq1 = dp2 * shrink, dp1 * shrink, dq2 * shrink, dq1 * shrink
        if not (np.abs(slope - previous) > tolerance * np.maximum(np.abs(slope), 1)).any():
            break
    log_x = np.log(x)
    scale = np.exp(a * log_x - x - special.gammaln(a))
    return scale * (value * (log_x - special.digamma(a)) + slope)
