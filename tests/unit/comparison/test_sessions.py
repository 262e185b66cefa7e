"""Comparisons of two sessions, and of a session with values."""

from __future__ import annotations

import numpy as np
import pytest

import graphmill
from graphmill import ops
from graphmill.comparison import Tolerance, compare_sessions, compare_with_values
from graphmill.errors import InvalidArgumentError, NotFoundError


def chain(factor: float) -> graphmill.Session:
    """Return a session that computes `out = neg(tanh(x * factor))`."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        scaled = ops.math.mul(x, graph.constant(factor, "float32", name="factor"), name="scaled")
        ops.math.neg(ops.math.tanh(scaled, name="tanh"), name="out")
    return graphmill.Session(graph=graph)


FEEDS = {"x:0": np.float32([0.0, 0.5])}


def test_equal_sessions_agree_without_a_second_step():
    found = compare_sessions(chain(2.0), chain(2.0), ["out:0"], FEEDS)
    assert found.agrees
    assert (found.tensors, found.num_compared, found.first) == ((), 0, None)


def test_every_tensor_is_compared_on_request():
    found = compare_sessions(chain(2.0), chain(2.0), ["out:0"], FEEDS, every_tensor=True)
    assert found.agrees
    assert found.num_compared == 4


def test_the_first_difference_has_the_path_to_the_output():
    found = compare_sessions(chain(2.0), chain(3.0), ["out:0"], FEEDS)
    assert not found.agrees
    assert found.first is not None
    assert found.first.tensor == "factor:0"
    assert found.path == ("factor:0", "scaled:0", "tanh:0", "out:0")
    assert {difference.tensor for difference in found.worst} == set(found.path)
    plain = found.as_dict()
    assert (plain["agrees"], plain["first"]) == (False, "factor:0")
    assert "path: factor:0 -> scaled:0 -> tanh:0 -> out:0" in str(found)


def test_tensors_of_one_graph_alone_are_skipped():
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        ops.math.neg(ops.math.tanh(ops.math.add_v2(x, x, name="sum"), name="tanh"), name="out")
    other = graphmill.Session(graph=graph)
    found = compare_sessions(chain(3.0), other, ["out:0"], FEEDS)
    assert found.skipped["scaled:0"] == "the other graph has no such tensor"
    assert found.path == ("tanh:0", "out:0")


def test_a_random_tensor_is_named_as_the_cause():
    graph = graphmill.Graph()
    with graph.as_default():
        drawn = ops.random.random_uniform([4], dtype="float32", name="drawn")
        ops.math.neg(drawn, name="out")
    sessions = graphmill.Session(graph=graph), graphmill.Session(graph=graph)
    found = compare_sessions(*sessions, ["out:0"])
    assert "'drawn:0' (RandomUniform) is random: set its seeds" in found.notes[0]


def test_interpreted_and_compiled_steps_agree_within_the_tolerance():
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        ops.math.tanh(ops.math.exp(x * 0.1), name="out")
    modes = [{"graphmill": {"jit": mode}} for mode in ("off", "eager")]
    a, b = (graphmill.Session(graph=graph, config=mode) for mode in modes)
    feeds = {"x:0": np.linspace(-3, 3, 100, dtype=np.float32)}
    assert compare_sessions(a, b, ["out:0"], feeds, every_tensor=True).agrees


def test_values_are_references():
    session = chain(2.0)
    right = {"scaled:0": np.float32([0, 1]), "out:0": -np.tanh(np.float32([0, 1]))}
    assert compare_with_values(session, right, FEEDS).agrees
    wrong = {**right, "scaled:0": np.float32([0, 2])}
    found = compare_with_values(session, wrong, FEEDS, tolerance=Tolerance(0, 1e-3))
    assert found.first is not None
    assert found.first.tensor == "scaled:0"
    assert found.skipped["tanh:0"] == "there is no value to compare it with"


def test_wrong_names_and_no_references_are_refused():
    with pytest.raises(NotFoundError, match="ouch"):
        compare_sessions(chain(2.0), chain(2.0), ["ouch:0"], FEEDS)
    with pytest.raises(InvalidArgumentError, match="no reference values"):
        compare_with_values(chain(2.0), {}, FEEDS)
    with pytest.raises(InvalidArgumentError, match="no reference value for 'tanh:0'"):
        compare_with_values(chain(2.0), {"out:0": [0.0, 0.0]}, FEEDS, fetches=["tanh:0"])
