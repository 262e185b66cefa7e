"""Equal clusters of a session share one program."""

from __future__ import annotations

import gc
from collections import Counter

import numpy as np
import pytest
from tests.plugins.jit.small_graphs import body

import graphmill
from graphmill.explain import explain_all
from graphmill.lowering.policies.effects_policy import EffectsPolicy
from graphmill.ops import array, math

pytestmark = [pytest.mark.jax, pytest.mark.divided]

pytest.importorskip("jax")

from graphmill_plugins.jit.ir.scheduled_body import ScheduledBodies  # noqa: E402
from graphmill_plugins.jit.programs import compiler  # noqa: E402 - needs JAX
from graphmill_plugins.jit.programs.shared_programs import SHARED  # noqa: E402

LAYERS = 24
SIZE = 12  # nodes of a part: three layers


def weight(layer, random):
    del layer
    return (random.standard_normal((33, 33)) / 8).astype(np.float32)


def session_of(mode, make_weight=weight, *, has_variables=False, width=33):
    graph, random = graphmill.Graph(), np.random.default_rng(1)
    with graph.as_default():
        x = graph.placeholder("float32", [None, width], name="x")
        h = x
        for layer in range(LAYERS):
            value = make_weight(layer, random)
            w = graphmill.Variable(value, name=f"w{layer}") if has_variables else value
            h = math.tanh(math.mat_mul(h, w)) + h * 0.5
        y = array.identity(h, name="y")
        init = graphmill.global_variables_initializer()
    config = {"graphmill": {"jit": mode, "jit_max_cluster_size": SIZE}}
    session = graphmill.Session(graph=graph, config=config)
    session.run(init)
    return session, x, y


def outcomes(session):
    clusters = [
        cluster
        for step in explain_all(session)
        for compilation in step.compilations.values()
        for cluster in compilation.clusters
    ]
    records = [one for cluster in clusters for sig in cluster.signatures for one in sig.compiles]
    return Counter(record.outcome for record in records)


@pytest.mark.parametrize("has_variables", [False, True])
def test_equal_layers_with_different_weights_share_a_program(has_variables):
    values = np.random.default_rng(2).standard_normal((4, 33)).astype(np.float32)
    results = []
    for mode in ("eager", "off"):
        session, x, y = session_of(mode, has_variables=has_variables)
        with session:
            results.append(session.run(y, {x: values}))
            if mode == "eager":
                counts = outcomes(session)
                assert counts["shared"] >= counts["compiled"]
                assert counts["shared"] + counts["compiled"] >= LAYERS * 4 // SIZE
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=1e-5)


def test_equal_layers_with_different_small_weights_share_a_program():
    def small(layer, random):
        del layer
        return random.standard_normal((4, 4)).astype(np.float32)

    values = np.random.default_rng(2).standard_normal((3, 4)).astype(np.float32)
    results = []
    for mode in ("eager", "off"):
        session, x, y = session_of(mode, small, width=4)
        with session:
            results.append(session.run(y, {x: values}))
            if mode == "eager":
                counts = outcomes(session)
                assert counts["shared"] >= counts["compiled"]
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=1e-5)


def test_other_shapes_have_another_program():
    session, x, y = session_of("eager")
    with session:
        session.run(y, {x: np.ones((2, 33), np.float32)})
        before = outcomes(session)["compiled"]
        session.run(y, {x: np.ones((3, 33), np.float32)})
        assert outcomes(session)["compiled"] == 2 * before


def test_small_constants_with_other_values_have_other_programs():
    def small(layer, random):
        del random
        return np.float32(layer)

    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [3], name="x")
        h = x
        for layer in range(LAYERS):
            h = math.tanh(h * small(layer, None) + 1.0)
    config = {"graphmill": {"jit": "eager", "jit_max_cluster_size": 6}}
    with graphmill.Session(graph=graph, config=config) as session:
        result = session.run(h, {x: [1, 2, 3]})
        assert outcomes(session)["shared"] == 0
    with graphmill.Session(graph=graph, config={"graphmill": {"jit": "off"}}) as session:
        np.testing.assert_allclose(result, session.run(h, {x: [1, 2, 3]}), rtol=1e-5)


def scaled(numbers):
    """Return a graph of layers that differ in one number, with its input and its output."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = h = graph.placeholder("float32", [3], name="x")
        for number in numbers:
            h = math.tanh(h * np.float32(number) + 0.5)
    return graph, x, h


def test_parts_of_a_large_cluster_that_differ_in_numbers_share_a_program(monkeypatch):
    monkeypatch.setattr(compiler, "_MIN_LARGE_CLUSTER_NODES", 4)
    graph, x, h = scaled([0.25 + layer / 64 for layer in range(LAYERS)])
    feeds = {x: [1, 2, 3]}
    config = {"graphmill": {"jit": "eager", "jit_max_cluster_size": 9}}
    with graphmill.Session(graph=graph, config=config) as session:
        result = session.run(h, feeds)
        assert outcomes(session) == {"compiled": 2, "shared": 6}
    with graphmill.Session(graph=graph, config={"graphmill": {"jit": "off"}}) as session:
        np.testing.assert_allclose(result, session.run(h, feeds), rtol=1e-5)


@pytest.mark.parametrize(
    ("op", "number", "is_argument"),
    [
        *[("Mul", 0.5, True), ("AddV2", 3.0, True)],
        *[("Mul", 0.0, False), ("Mul", 1.0, False), ("Mul", -1.0, False)],  # have shorter forms
        *[("Pow", 2.0, False), ("Sub", 0.5, False)],
    ],
)
def test_numbers_without_a_shorter_form_are_arguments(op, number, is_argument, monkeypatch):
    monkeypatch.setattr(compiler, "_MIN_LARGE_CLUSTER_NODES", 2)
    nodes = f"k = Const(dtype=float32, value='float32: {number}')", f"y = {op}(x, k)"
    made = body(*nodes, x="float32[2]")
    bodies = ScheduledBodies(made, graphmill.default_host(), EffectsPolicy())
    assert [node.name for node in compiler._large_constants(bodies)] == ["k"] * is_argument


def test_programs_are_forgotten_with_their_session():
    gc.collect()
    before = len(SHARED)
    session, x, y = session_of("eager")
    with session:
        session.run(y, {x: np.ones((2, 33), np.float32)})
        assert len(SHARED) > before
    del session, x, y
    gc.collect()
    assert len(SHARED) == before
