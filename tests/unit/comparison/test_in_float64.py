"""Each node of a step is recomputed in float64 from its own inputs."""

from __future__ import annotations

import numpy as np

import graphmill
from graphmill import ops
from graphmill.comparison import Tolerance, compare_with_float64


def test_only_the_node_that_loses_precision_differs():
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        large = ops.math.add_v2(x, graph.constant(1e8, "float32"), name="large")
        ops.math.neg(large, name="out")
    with graphmill.Session(graph=graph) as session:
        found = compare_with_float64(session, ["out:0"], {"x:0": [3.0]}, tolerance=Tolerance(0, 0))
    # 100000003 is no float32, but the rounded result is the best one: nothing is lost by a node.
    assert found.agrees
    assert found.num_compared == 2


def test_cancellation_within_a_node_is_found():
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float16", [None], name="x")
        total = ops.math.sum(x, [0], name="total")
        ops.math.neg(total, name="out")
    values = np.float16([2048.0, 1.0, -2048.0] * 3)
    with graphmill.Session(graph=graph, config={"graphmill": {"jit": "off"}}) as session:
        found = compare_with_float64(session, ["out:0"], {"x:0": values})
        computed = session.run("total:0", {"x:0": values})
    assert found.outputs == ()
    assert {one.tensor for one in found.tensors} <= {"total:0"}
    assert found.agrees == (computed == 3)


def test_node_that_is_not_recomputed_has_a_reason():
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        drawn = ops.random.random_uniform([2], dtype="float32", name="drawn")
        integer = ops.math.cast(x, DstT="int32", name="integer")
        ops.math.add_v2(drawn, ops.math.cast(integer, DstT="float32", name="back"), name="out")
    with graphmill.Session(graph=graph) as session:
        found = compare_with_float64(session, ["out:0"], {"x:0": 2.0})
    assert found.skipped["integer:0"] == "its node computes no floating-point values"
    assert found.skipped["drawn:0"] == "its node has effects or state"
    assert found.agrees
    assert found.num_compared == 2
