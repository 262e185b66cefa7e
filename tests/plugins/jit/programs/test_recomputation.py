"""Values that several operations would recompute from many arrays are stored."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill_plugins.jit.programs.recomputation import limit_recomputation

jax = pytest.importorskip("jax")
LARGE = np.ones((64, 128), np.float32)
SMALL = np.ones((4, 8), np.float32)


def limited(function, *arguments, platform="cpu"):
    return limit_recomputation(jax.make_jaxpr(function)(*arguments), platform)


def barriers(closed):
    return sum(eqn.primitive.name == "optimization_barrier" for eqn in closed.jaxpr.eqns)


def growing_sum(x, *parts):
    """Return a sum that a product reads after each addition."""
    for part in parts:
        x = x + part @ (x.T @ x)
    return x


def stencil(x):
    for _ in range(6):
        x = x + jax.numpy.pad(x[:-1] + x[1:], [(0, 1), (0, 0)])
    return x


def test_growing_sums_are_stored_every_few_terms():
    assert barriers(limited(growing_sum, LARGE, *[LARGE] * 13)) == 3


def test_steps_of_a_stencil_are_stored():
    assert barriers(limited(stencil, LARGE)) == 2


def test_the_results_are_the_same():
    x = np.random.default_rng(3).standard_normal((64, 128)).astype(np.float32)
    computed = jax.jit(jax.extend.core.jaxpr_as_fun(limited(stencil, LARGE)))(x)
    np.testing.assert_allclose(computed[0], jax.jit(stencil)(x), rtol=1e-5)


def test_small_values_are_not_stored():
    assert not barriers(limited(growing_sum, SMALL, *[SMALL] * 12))


def test_values_with_one_reader_are_not_stored():
    assert not barriers(limited(lambda x, *parts: sum(parts, x), *[LARGE] * 12))


def window(x, taps):
    """Return a sum of shifted images."""
    return sum(x[tap : tap + 64 - taps] for tap in range(taps))


def test_sums_of_many_arrays_are_stored_behind_other_operations():
    """A value of more arrays than are counted does not become cheap."""

    def function(x):
        y = jax.numpy.tanh(window(x, 31)) * 2
        return y + y.T.sum(), y @ y.T

    wide = np.ones((64, 1024), np.float32)
    assert barriers(limited(function, wide)) == 1
    assert barriers(limited(lambda *parts: function(sum(parts)), *[wide] * 3)) == 2


@pytest.mark.parametrize(("taps", "stored"), [(9, 0), (40, 1)])
def test_images_of_few_arrays_are_stored_for_large_windows(taps, stored):
    assert barriers(limited(lambda x, y: window(x * y, taps), LARGE, LARGE)) == stored
    assert barriers(limited(lambda x: window(x * 2, taps), LARGE)) == 0


def test_sums_of_few_arrays_are_not_stored():
    assert not barriers(limited(growing_sum, LARGE, LARGE, LARGE))


def test_other_platforms_store_what_they_choose():
    assert not barriers(limited(stencil, LARGE, platform="cuda"))


def test_operands_of_a_call_are_followed():
    step = jax.jit(lambda x, part: x + part)

    def function(x, *parts):
        for part in parts:
            x = step(x, part @ (x.T @ x))
        return x

    assert barriers(limited(function, LARGE, *[LARGE] * 13)) == 3


def test_equal_reads_count_once():
    def function(x):
        for _ in range(12):
            x = x * x + x
        return x

    assert not barriers(limited(function, LARGE))


def test_what_a_platform_computes_is_followed():
    """A kernel may compute a sum of shifted images on the CPU, and call a library elsewhere."""

    def shifted(x):
        return sum((x[:, tap : tap + 100] for tap in range(9)), 0.0)

    def activated(x):
        x = jax.lax.platform_dependent(x, cpu=shifted, default=lambda x: x[:, :100])
        return x * jax.numpy.tanh(x)

    assert barriers(limited(activated, LARGE)) == 1
    assert not barriers(limited(lambda x: activated(x[:4]), LARGE))
    computed = jax.jit(jax.extend.core.jaxpr_as_fun(limited(activated, LARGE)))(LARGE)
    np.testing.assert_allclose(computed[0], 9 * np.tanh(np.full((64, 100), 9.0)), rtol=1e-6)
