"""Special functions on NumPy from SciPy, which is imported on first use.

JAX has its own module, `graphmill_plugins.kernels.jax.math_special`.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins._optional import import_optional
from graphmill_plugins.kernels._helper_threads import HELPERS
from graphmill_plugins.kernels._support import in_float32, shape_text
from graphmill_plugins.kernels._tables import functions_in_float32

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value


def _scipy(name: str) -> Callable[[], Callable[..., Value]]:
    """Return a factory of a SciPy function, which imports SciPy when it is called."""

    def get() -> Callable[..., Value]:
        special: Any = import_optional("scipy.special")
        function: Callable[..., Value] = getattr(special, name)
        return function

    return get


# P and Q of erf(x) = x P(x²) / Q(x²) for |x| < 4, highest power first, as in Eigen's
# generic_fast_erf_float, which is TensorFlow's. SciPy's erf takes six times as long on large
# float32 arrays.
_ERF_P = tuple(
    map(
        np.float32,
        (
            -2.72614225801306e-10,
            2.77068142495902e-08,
            -2.10102402082508e-06,
            -5.69250639462346e-05,
            -7.34990630326855e-04,
            -2.95459980854025e-03,
            -1.60960333262415e-02,
        ),
    )
)
_ERF_Q = tuple(
    map(
        np.float32,
        (
            -1.45660718464996e-05,
            -2.13374055278905e-04,
            -1.68282697438203e-03,
            -7.37332916720468e-03,
            -1.42647390514189e-02,
        ),
    )
)
_ERF_LIMIT = np.float32(4)
_MAX_MATH_ERF = 32  # elements up to which `math.erf` is faster
_MIN_SHARED_SIZE = 1 << 17  # elements, which take a few tenths of a millisecond
_ERF_BLOCK = 1 << 15  # elements; a block and its temporaries fit the second-level cache


def _horner(x: Value, coefficients: tuple[np.float32, ...], out: Value) -> None:
    """Evaluate a polynomial at the array `x` into `out`."""
    np.multiply(x, coefficients[0], out=out)
    for coefficient in coefficients[1:-1]:
        out += coefficient
        out *= x
    out += coefficients[-1]


def erf_float32(x: Value) -> Value:
    """Compute erf of float32 values block by block, accurate to about three ulps."""
    flat = x.reshape(-1)
    if flat.size <= _MAX_MATH_ERF:
        few = [math.erf(value) for value in flat.tolist()]
        return np.array(few, np.float32).reshape(x.shape)
    result = np.empty(flat.shape, np.float32)
    scratch = np.empty((4, min(_ERF_BLOCK, flat.size)), np.float32)
    scratch[3] = _ERF_LIMIT  # NumPy compares arrays four times as fast as an array and a scalar
    for start in range(0, flat.size, _ERF_BLOCK):
        out = result[start : start + _ERF_BLOCK]
        clipped, square, q, limit = scratch[:, : out.size]
        np.minimum(flat[start : start + _ERF_BLOCK], limit, out=clipped)
        np.maximum(clipped, np.negative(limit, out=q), out=clipped)
        np.multiply(clipped, clipped, out=square)
        _horner(square, _ERF_P, out)
        out *= clipped
        _horner(square, _ERF_Q, q)
        out /= q
    return result.reshape(x.shape)


@kernel("Erf", backend="numpy", types={"T": dtypes.FLOATING}, make=True)
def erf(T: np.dtype[Any]) -> Callable[[Value], Value]:
    """Compute the error function; only float64 needs SciPy, which is slow to import."""
    if np.float64 == T:
        return _scipy("erf")()
    return in_float32(T, erf_float32)


# The logarithm of exp(x²) erfc(x) / t as a polynomial in t = 1 / (1 + x / 2), for 0 <= x <= 12,
# fitted at Chebyshev nodes. The relative error of the result is 1.2e-8, also in the tail.
_ERFC = (
    *(-1.26555689899, 1.0013224544, 0.358184326751, 0.204593909897, -0.634957880929),
    *(1.48264508007, -3.25596230686, 3.92501976131, -2.57857036379, 0.891727873861),
    -0.128445950481,
)


def erfc_float32(x: Value) -> Value:
    """Compute 1 - erf of float32 values in float64, so that small results stay accurate."""
    if x.size <= _MAX_MATH_ERF:
        few = [math.erfc(value) for value in x.ravel().tolist()]
        return np.array(few, np.float32).reshape(x.shape)
    far = np.abs(x.astype(np.float64))
    t = 1 / (1 + far / 2)
    total = np.full_like(t, _ERFC[-1])
    for coefficient in _ERFC[-2::-1]:
        total *= t
        total += coefficient
    # The tail is 0 beyond 30; the limit avoids squares of infinity.
    tail = t * np.exp(total - np.square(np.minimum(far, 30)))
    return np.where(x < 0, 2 - tail, tail).astype(np.float32)


@kernel("Erfc", backend="numpy", types={"T": dtypes.FLOATING}, make=True)
def erfc(T: np.dtype[Any]) -> Callable[[Value], Value]:
    """Compute 1 - erf; only float64 needs SciPy, which is slow to import."""
    get = _scipy("erfc") if np.float64 == T else lambda: erfc_float32
    return in_float32(T, _in_threads(get)())


_FRESNEL_FAR = 1e30  # from here on both integrals round to 0.5


def _fresnel(index: int) -> Callable[[], Callable[[Value], Value]]:
    def get() -> Callable[[Value], Value]:
        fresnel = _scipy("fresnel")()

        def function(x: Value) -> Value:
            # Beyond _FRESNEL_FAR SciPy overflows, and returns NaN instead of 0.5.
            half = x.dtype.type(0.5)
            return np.where(np.abs(x) > _FRESNEL_FAR, np.copysign(half, x), fresnel(x)[index])

        return function

    return get


def _lgamma() -> Callable[[Value], Value]:
    lgamma = _scipy("gammaln")()
    return lambda x: np.where(np.isinf(x), x.dtype.type(np.inf), lgamma(x))


def _digamma() -> Callable[[Value], Value]:
    digamma = _scipy("digamma")()

    def with_poles(x: Value) -> Value:
        is_pole = (x <= 0) & (x == np.floor(x))
        return np.where(is_pole, _nan_like(x), digamma(x))

    return with_poles


def _for_negative(name: str, value: float) -> Callable[[], Callable[[Value], Value]]:
    """Return a factory of a SciPy function that returns `value` for negative arguments."""

    def get() -> Callable[[Value], Value]:
        function = _scipy(name)()
        return lambda x: np.where(x < 0, x.dtype.type(value), function(x))

    return get


def _bounded(get: Callable[[], Callable[[Value], Value]]) -> Callable[[], Callable[[Value], Value]]:
    """Return a factory of a function that is NaN where 1 / x is subnormal, as in Eigen."""

    def get_bounded() -> Callable[[Value], Value]:
        function = get()
        return lambda x: np.where(x > 1 / np.finfo(x.dtype).tiny, _nan_like(x), function(x))

    return get_bounded


def _betainc() -> Callable[[Value, Value, Value], Value]:
    betainc = _scipy("betainc")()

    def function(a: Value, b: Value, x: Value) -> Value:
        check_betainc(a, b, x)
        is_end, is_positive = (x == 0) | (x == 1), ~((a <= 0) | (b <= 0))
        is_regular = is_positive & ((np.isfinite(a) & np.isfinite(b)) | is_end)
        return np.where(is_regular, np.where(is_end, x, betainc(a, b, x)), _nan_like(a))

    return function


def check_betainc(a: Value, b: Value, x: Value) -> None:
    """Check the shapes of Betainc's inputs: equal, or scalars.

    Raises:
        InvalidArgumentError: two inputs that are not scalars differ in shape.
    """
    shapes = {value.shape for value in (a, b, x) if value.ndim}
    if len(shapes) > 1:
        shown = " vs. ".join(map(shape_text, sorted(shapes)))
        raise InvalidArgumentError(f"Shapes of a, b and x are inconsistent: {shown}")


def _incomplete_gamma(name: str) -> Callable[[], Callable[[Value, Value], Value]]:
    """Return the factory of a function that is NaN for a <= 0, but gammainc is 0 at x = 0."""

    def get() -> Callable[[Value, Value], Value]:
        function = _scipy(name)()
        at_zero = 0 if name == "gammainc" else np.nan
        return lambda a, x: np.where(
            a > 0, function(a, x), np.where(x == 0, a.dtype.type(at_zero), _nan_like(a))
        )

    return get


def _nan_like(x: Value) -> Value:
    return x.dtype.type(np.nan)


def zeta_at_infinity(xp: ArrayNamespace, q: Value) -> Value:
    """Return the first term of the zeta function for an infinite exponent."""
    limit = xp.where(q > 1, 0, xp.where(q == 1, 1, xp.inf)).astype(q.dtype)
    return xp.where(xp.isnan(q), q, limit)


def _zeta() -> Callable[[Value, Value], Value]:
    """Return Hurwitz's zeta function, whose poles are infinite for even `x`, else NaN.

    Semantics: Eigen's zeta_impl.
    """
    zeta = _scipy("zeta")()

    def with_poles(x: Value, q: Value) -> Value:
        is_even = np.isinf(x) | (np.fmod(x, 2) == 0)
        is_undefined = (q <= 0) & (q == np.floor(q)) & ~(x <= 1) & ~is_even
        value = np.where(is_undefined, x.dtype.type(np.nan), zeta(x, q))
        return np.where(np.isposinf(x), zeta_at_infinity(np, q), value)

    return with_poles


def _polygamma() -> Callable[[Value, Value], Value]:
    """Return n! zeta(n + 1, x) with alternating sign; NaN if n is negative or not an integer.

    Semantics: Eigen's polygamma_impl.
    """
    zeta, gamma, digamma = _zeta(), _scipy("gamma")(), _digamma()

    def polygamma(n: Value, x: Value) -> Value:
        order, point = n.astype(np.float64), x.astype(np.float64)
        sign = np.where(np.fmod(order, 2) == 0, -1.0, 1.0)
        general = sign * gamma(order + 1) * zeta(order + 1, point)
        value = np.where(order == 0, digamma(point), general)
        return np.where((order < 0) | (order != np.floor(order)), np.nan, value).astype(x.dtype)

    return polygamma


def _in_threads(get: Callable[[], Callable[..., Value]]) -> Callable[[], Callable[..., Value]]:
    """Return the factory of a function that splits large arrays over threads."""

    def get_threaded() -> Callable[..., Value]:
        function = get()

        def run(*arrays: Value) -> Value:
            if max(array.size for array in arrays) < _MIN_SHARED_SIZE:
                return function(*arrays)
            wide = np.broadcast_arrays(*arrays)
            flat = [np.ascontiguousarray(array).reshape(-1) for array in wide]
            result = np.empty(flat[0].shape, arrays[0].dtype)

            def part(start: int) -> None:
                piece = slice(start, start + _MIN_SHARED_SIZE // 2)
                with np.errstate(all="ignore"):  # the error state is per thread
                    result[piece] = function(*(array[piece] for array in flat))

            starts = range(0, result.size, _MIN_SHARED_SIZE // 2)
            HELPERS.run([partial(part, start) for start in starts])
            return result.reshape(wide[0].shape)

        return run

    return get_threaded


_FUNCTIONS: dict[str, Callable[[], Callable[..., Value]]] = {
    "Erfinv": _scipy("erfinv"),
    "Ndtri": _scipy("ndtri"),
    "Lgamma": _lgamma,
    "Digamma": _digamma,
    "Igamma": _incomplete_gamma("gammainc"),
    "Igammac": _incomplete_gamma("gammaincc"),
    "Betainc": _betainc,
    "Zeta": _zeta,
    "Polygamma": _polygamma,
    "BesselI0": _scipy("i0"),
    "BesselI0e": _scipy("i0e"),
    "BesselI1": _scipy("i1"),
    "BesselI1e": _scipy("i1e"),
    "BesselJ0": _scipy("j0"),
    "BesselJ1": _scipy("j1"),
    "BesselK0": _for_negative("k0", np.inf),
    "BesselK0e": _for_negative("k0e", np.inf),
    "BesselK1": _for_negative("k1", np.inf),
    "BesselK1e": _for_negative("k1e", np.inf),
    "BesselY0": _for_negative("y0", -np.inf),
    "BesselY1": _for_negative("y1", -np.inf),
    "Dawsn": _scipy("dawsn"),
    "Expint": _bounded(_for_negative("expi", np.nan)),
    "Spence": _bounded(_scipy("spence")),
    "FresnelSin": _fresnel(0),
    "FresnelCos": _fresnel(1),
}
SPECIAL = functions_in_float32(
    __name__,
    {op: _in_threads(get) for op, get in _FUNCTIONS.items()},
    backend="numpy",
    types=dtypes.FLOATING,
)
