"""Functions of complex numbers have C's values where a part is zero, infinite or NaN."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from graphmill_plugins.kernels.jax import math_complex

jax = pytest.importorskip("jax")
PARTS = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, -1.5]
NUMBERS = np.array([complex(a, b) for a, b in itertools.product(PARTS, repeat=2)])


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize(
    ("function", "exact"),
    [(math_complex.exp, np.exp), (math_complex.log, np.log), (math_complex.cos, np.cos)],
)
def test_values_are_those_of_c(function, exact, dtype):
    x = NUMBERS.astype(dtype)
    with jax.enable_x64(True):
        found = np.asarray(jax.jit(function)(x))
    with np.errstate(all="ignore"):
        expected = exact(x)
    assert found.dtype == dtype
    np.testing.assert_allclose(found.real, expected.real, 1e-6)
    np.testing.assert_allclose(found.imag, expected.imag, 1e-6)


POINTS = np.array(
    [complex(*parts) for size in (0.5, 1.0, 2.0) for zero in (0.0, -0.0)
     for parts in ((size, zero), (-size, zero), (zero, size), (zero, -size))]
)  # fmt: skip


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("op", math_complex._CUT_ON_REAL_AXIS | math_complex._CUT_ON_IMAGINARY_AXIS)
def test_sign_of_zero_tells_the_side_of_a_branch_cut(op, dtype):
    make = next(row.function for row in math_complex.WITH_BRANCH_CUTS if row.ops == (op,))
    x = POINTS.astype(dtype)
    with jax.enable_x64(True):
        found = np.asarray(jax.jit(make(jax.numpy, np.dtype(dtype)))(x))
    names = {**math_complex._CUT_ON_REAL_AXIS, **math_complex._CUT_ON_IMAGINARY_AXIS}
    with np.errstate(all="ignore"):
        expected = getattr(np, names[op])(x)
    assert found.dtype == dtype
    np.testing.assert_allclose(found.real, expected.real, 1e-5, 1e-7)
    np.testing.assert_allclose(found.imag, expected.imag, 1e-5, 1e-7)
