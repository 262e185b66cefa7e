"""Computations that run once are done with NumPy, with XLA's results."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytestmark = pytest.mark.jax

import jax.numpy as jnp  # noqa: E402

from graphmill_plugins.jit.programs.numpy_form import numpy_form  # noqa: E402

RNG = np.random.default_rng(5)
FUNCTIONS = {
    "batch normalization": lambda a, b: (a - b * jax.lax.rsqrt(b + 1e-3), jnp.sqrt(b) / b),
    "transposed": lambda a, b: jnp.transpose(a)[None] * b[:, None],
    "sums": lambda a, b: (-a + b, a - 1.5, 2.0 * a),
    "a product of rows": lambda a, b: a @ b,
    "a product of matrices": lambda a, b: a @ a.T,
    "products of a batch": lambda a, b: jnp.einsum("bij,bjk->bik", a[None], a.T[None]),
    "Winograd's weights": lambda a, b: jnp.einsum(
        "ik,klco,jl->ijco", a, jnp.reshape(jnp.outer(a, jnp.outer(a, b)), (4, 4, -1, 4)), a
    ),
    "other types": lambda a, b: (a.astype("float64") * 3, jnp.squeeze(b[None], 0)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_xlas(name):
    a, b = (RNG.uniform(0.5, 2, shape).astype(np.float32) for shape in ((3, 4), (4,)))
    with jax.enable_x64(True):
        closed = jax.make_jaxpr(FUNCTIONS[name])(a, b)
        expected = jax.tree.leaves(jax.jit(FUNCTIONS[name])(a, b))
    compute = numpy_form(closed)
    assert compute is not None
    results = compute(a, b)
    assert [one.dtype for one in results] == [one.dtype for one in expected]
    for result, one in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, one, rtol=1e-6, atol=1e-6)


def test_an_argument_may_be_a_result():
    a = np.ones(3, np.float32)
    compute = numpy_form(jax.make_jaxpr(lambda a: (a, a + 1))(a))
    assert compute is not None
    np.testing.assert_array_equal(compute(a), [[1, 1, 1], [2, 2, 2]])


def test_arithmetic_does_not_warn():
    closed = jax.make_jaxpr(lambda a: (a / (a - a), jnp.sqrt(-a)))(np.float32(1))
    compute = numpy_form(closed)
    assert compute is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = compute(np.float32(1))
    assert [np.isinf(results[0]), np.isnan(results[1])] == [True, True]


@pytest.mark.parametrize(
    ("function", "value"),
    [
        (jnp.exp, np.float32(1)),  # the last bits differ
        (lambda x: x / 2, jnp.bfloat16(1)),  # XLA does not round between two operations
        (lambda x: x // 2, np.int32(1)),
        (lambda x: x.astype("int32"), np.float32(1)),  # XLA's result is in the type's range
        (lambda x: jax.lax.while_loop(lambda y: y < 9, lambda y: y + 1, x), np.float32(1)),
    ],
)
def test_operations_that_differ_have_no_numpy_form(function, value):
    assert numpy_form(jax.make_jaxpr(function)(value)) is None
