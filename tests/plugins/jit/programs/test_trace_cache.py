"""The size of JAX's trace cache is bounded."""

from __future__ import annotations

import importlib

import pytest

from graphmill_plugins.jit.programs import trace_cache

pytestmark = pytest.mark.jax

jax = pytest.importorskip("jax")


def test_traces_are_forgotten_beyond_a_limit() -> None:
    traces = trace_cache._traces()
    if traces is None:
        pytest.skip("this JAX has no such cache")
    traces.cache_clear()
    for size in range(1, 6):
        jax.make_jaxpr(jax.numpy.add)(jax.ShapeDtypeStruct((size,), "float32"), 1.0)
    kept = traces.cache_info().currsize
    assert kept >= 5
    trace_cache.bound_traces(kept)
    assert traces.cache_info().currsize == kept
    trace_cache.bound_traces(kept - 1)
    assert traces.cache_info().currsize == 0


def test_notes_of_traces_without_mutable_values_are_forgotten() -> None:
    notes = getattr(importlib.import_module(trace_cache._PJIT), "_seen_qdds", None)
    if notes is None:
        pytest.skip("this JAX has no such notes")

    def count() -> int:
        return sum(len(by_type) for by_type in notes.values())

    for size in range(1, 6):
        jax.make_jaxpr(jax.numpy.add)(jax.ShapeDtypeStruct((size,), "float32"), 1.0)
    assert count() >= 5
    trace_cache._forget_empty_notes()
    assert count() < 5
    jax.make_jaxpr(jax.numpy.add)(jax.ShapeDtypeStruct((3,), "float32"), 1.0)


def test_jax_without_a_cache_is_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_cache, "_MODULE", "jax.none")
    assert trace_cache._traces.__wrapped__() is None
