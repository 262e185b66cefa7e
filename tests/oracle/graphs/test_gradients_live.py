"""Gradients equal TensorFlow's for every op with cases, and through its control flow.

Each case of one op becomes a graph; `tf.gradients` and `graphmill.gradients` compute the gradients
of its outputs, weighted by fixed numbers.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import graphmill
from graphmill import proto
from graphmill.testing.case import load_cases
from graphmill.testing.case_inputs import SpecError
from graphmill.testing.case_writer import case_text, table_of
from graphmill.testing.differential.gradients import classify
from graphmill.testing.oracle.gradient_results import (
    GradientRequest,
    gradient_graph,
    graphmill_gradients,
    tensorflow_gradients,
)

pytestmark = pytest.mark.oracle

CASES_PER_OP = 4
REQUEST = GradientRequest()


def smooth_cases():
    ops = graphmill.default_host().ops
    for case in load_cases():
        if case.program is not None or case.error or ops.get(case.op).is_stateful:
            continue
        try:
            prepared = gradient_graph(case, REQUEST)
        except SpecError:
            continue
        if {value.dtype.name for value in prepared.smooth.values()} & {"float32", "complex64"}:
            yield case


BY_OP = {
    op: list(itertools.islice(rows, CASES_PER_OP))
    for op, rows in itertools.groupby(
        sorted(smooth_cases(), key=lambda case: case.op), key=lambda case: case.op
    )
}


@pytest.mark.parametrize("op", sorted(set(BY_OP) - {"_EagerConst"}))
def test_gradients_of_an_op_are_tensorflows(op, tf):
    del tf
    outcomes = []
    for case in BY_OP[op]:
        try:
            answer = tensorflow_gradients(case, REQUEST)
        except SpecError:
            continue
        text = REQUEST.text(case_text(op, table_of(case)))
        outcome, message = classify(
            text, answer, lambda _, case=case: graphmill_gradients(case, REQUEST)
        )
        assert not message, f"{case.id}: {message}"
        outcomes.append(outcome)
    if not any(outcome.startswith("agree") for outcome in outcomes):
        pytest.skip("TensorFlow has no gradient of it")


def test_enough_ops_are_compared():
    assert len(BY_OP) >= 250


# Control flow: TensorFlow builds the graph and its gradients, graphmill its own of the same graph.


def repeat(tf, count, body, first):
    return tf.compat.v1.while_loop(
        lambda i, _: i < count, lambda i, s: (i + 1, body(i, s)), [0, first]
    )[1]


def is_even(tf, i):
    return tf.equal(i % 2, 0)


PROGRAMS = {
    "loop": lambda tf, x, w: repeat(tf, 4, lambda _, s: tf.tanh(s * w), x),
    "no iteration": lambda tf, x, w: repeat(tf, 0, lambda _, s: s * w, x),
    "nested": lambda tf, x, w: repeat(
        tf, 3, lambda i, s: repeat(tf, 2 + i, lambda _, u: tf.sin(u * w) + s, s), x
    ),
    "branch": lambda tf, x, w: tf.compat.v1.cond(x[0] > 0, lambda: x * w, lambda: tf.sin(x)),
    "branch in loop": lambda tf, x, w: repeat(
        tf,
        5,
        lambda i, s: tf.compat.v1.cond(
            is_even(tf, i), lambda: tf.sin(s * w) * tf.exp(-s * s), lambda: s * s * w + tf.cos(s)
        ),
        x,
    ),
    "loop in branch": lambda tf, x, w: tf.compat.v1.cond(
        x[0] > 0, lambda: repeat(tf, 3, lambda _, s: tf.sin(s * w), x), lambda: tf.cos(x)
    ),
    "loop in branch in loop": lambda tf, x, w: repeat(
        tf,
        4,
        lambda i, s: tf.compat.v1.cond(
            is_even(tf, i),
            lambda: repeat(tf, i + 1, lambda _, u: tf.sin(u * w) * u, s),
            lambda: tf.cos(s * w),
        ),
        x,
    ),
    "map": lambda tf, x, w: tf.map_fn(lambda v: tf.tanh(v) * w, tf.stack([x, x * 2])),
    "scan": lambda tf, x, w: tf.scan(lambda a, v: tf.tanh(a * w + v), tf.stack([x, x * 2, x * 3])),
}


@pytest.fixture(params=["v1", "v2"])
def control_flow(request, tf):
    """Make TensorFlow build control flow from primitives, or from calls of functions."""
    v1 = tf.compat.v1
    was_on = v1.control_flow_v2_enabled()
    (v1.enable_control_flow_v2 if request.param == "v2" else v1.disable_control_flow_v2)()
    yield
    (v1.enable_control_flow_v2 if was_on else v1.disable_control_flow_v2)()


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_through_control_flow_are_tensorflows(name, sign, control_flow, tf):
    v1 = tf.compat.v1
    feeds = {"x:0": np.array([0.3, -0.7, 1.1]) * sign, "w:0": np.array([0.9, 0.4, -0.6])}
    graph = tf.Graph()
    with graph.as_default(), v1.Session(graph=graph) as session:
        xs = [v1.placeholder(tf.float64, (3,), name=name[0]) for name in feeds]
        y = tf.identity(PROGRAMS[name](tf, *xs), name="y")
        message = graph.as_graph_def()
        found = tf.gradients(y, xs, unconnected_gradients="zero")
        expected = session.run([y, *found], feeds)
    mine = graphmill.Graph.from_graph_def(proto.GraphDef.FromString(message.SerializeToString()))
    with mine.as_default():
        y = mine.get_tensor_by_name("y:0")
        xs = [mine.get_tensor_by_name(name) for name in feeds]
        found = graphmill.gradients(y, xs, unconnected_gradients="zero")
    with graphmill.Session(graph=mine) as session:
        for result, answer in zip(session.run([y, *found], feeds), expected, strict=True):
            np.testing.assert_allclose(result, answer, 1e-9)
