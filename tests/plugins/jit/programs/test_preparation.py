"""Values that depend on constants alone are computed by NumPy, or by a separate program."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytestmark = pytest.mark.jax

import jax.numpy as jnp  # noqa: E402

from graphmill.errors import ResourceExhaustedError  # noqa: E402
from graphmill.spi.kernels import with_memory_limit  # noqa: E402
from graphmill_plugins.jit.programs import preparation as module  # noqa: E402
from graphmill_plugins.jit.programs.hoist import hoist  # noqa: E402
from graphmill_plugins.jit.programs.memory import memory_of  # noqa: E402

WEIGHTS = np.full((4, 4), 4, np.float32)


def prepared(function, monkeypatch, memory=None):
    """Return the prepared values, and the number of compiled programs."""
    compiled = []
    compile_program = module.compile_program
    monkeypatch.setattr(
        module,
        "compile_program",
        lambda *args: compiled.append(args) or compile_program(*args),
    )
    parts = hoist(jax.make_jaxpr(function)(WEIGHTS, np.ones(4, np.float32)), [0])
    prepare = module.preparation(parts, [WEIGHTS], memory or memory_of(None), None)
    return [np.asarray(one) for one in prepare(WEIGHTS)], len(compiled)


def test_numpy_computes_what_it_can(monkeypatch):
    (scale,), programs = prepared(lambda w, x: x * jnp.sqrt(w), monkeypatch)
    np.testing.assert_array_equal(scale, np.full((4, 4), 2))
    assert programs == 0


def test_other_operations_are_compiled(monkeypatch):
    (scale,), programs = prepared(lambda w, x: x * jnp.exp(w), monkeypatch)
    np.testing.assert_allclose(scale, np.exp(WEIGHTS), rtol=1e-6)
    assert programs == 1


def test_the_memory_of_another_device_has_its_own_program(monkeypatch):
    memory = memory_of(None)
    memory.platform = "gpu"  # only the choice depends on it here
    (scale,), programs = prepared(lambda w, x: x * jnp.sqrt(w), monkeypatch, memory)
    np.testing.assert_array_equal(scale, np.full((4, 4), 2))
    assert programs == 1


def test_results_beyond_the_memory_budget_are_refused(monkeypatch):
    limited = with_memory_limit(32, prepared)
    with pytest.raises(ResourceExhaustedError, match="64 bytes are requested"):
        limited(lambda w, x: x * jnp.sqrt(w), monkeypatch)


def test_constants_alone_are_passed_on(monkeypatch):
    (weights,), programs = prepared(lambda w, x: x @ w, monkeypatch)
    np.testing.assert_array_equal(weights, WEIGHTS)
    assert programs == 0
