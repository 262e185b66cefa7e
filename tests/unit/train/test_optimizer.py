"""Optimizers gate gradients, add them and apply constraints as the caller asks."""

from __future__ import annotations

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops, train


@pytest.fixture
def graph():
    with graphmill.Graph().as_default() as graph:
        yield graph


def sgd():
    return train.GradientDescentOptimizer(0.5)


def after_a_step(graph, step, variables):
    with graphmill.Session(graph=graph) as session:
        session.run(graphmill.global_variables_initializer())
        session.run(step)
        return session.run(variables)


@pytest.mark.parametrize(
    ("gate", "gates"),
    [
        (train.Optimizer.GATE_NONE, []),
        (train.Optimizer.GATE_OP, ["gradients/loss_grad/tuple/group_deps"]),
        (train.Optimizer.GATE_GRAPH, ["tuple/group_deps"]),
    ],
)
def test_gradients_are_gated(graph, gate, gates):
    a, b = graphmill.Variable(2.0), graphmill.Variable(3.0)
    loss = ops.math.mul(a, b, name="loss")
    pairs = sgd().compute_gradients(loss, gate_gradients=gate)
    assert [node.name for node in graph.nodes if node.name.endswith("group_deps")] == gates
    assert after_a_step(graph, sgd().apply_gradients(pairs), [a, b]) == [0.5, 2]


def test_unknown_gate_is_refused(graph):
    v = graphmill.Variable(2.0)
    with pytest.raises(ValueError, match=r"Optimizer\.GATE_OP"):
        sgd().minimize(v * v, gate_gradients=3)


def test_gradients_are_added_one_after_the_other(graph):
    v = graphmill.Variable(2.0)
    loss = v * 3.0 + v * 4.0 + v * 5.0
    method = graphmill.AggregationMethod.EXPERIMENTAL_TREE
    step = sgd().minimize(loss, None, [v], train.Optimizer.GATE_OP, method, False, "step")
    assert step.name == "step"
    assert after_a_step(graph, step, v) == -4
    assert len([node for node in graph.nodes if "_gradient_sum/" in node.name]) == 2


def test_fourth_argument_may_be_a_name_with_a_warning(graph):
    v = graphmill.Variable(2.0)
    with pytest.warns(DeprecationWarning, match="minimize"):
        step = sgd().minimize(v * v, None, [v], "step")
    assert step.name == "step"


@pytest.mark.parametrize("use_resource", [True, False])
def test_constraint_is_applied_after_the_update(graph, use_resource):
    v = graphmill.Variable(
        [1.0, -3.0],
        constraint=lambda value: ops.math.maximum(value, 0.0),
        use_resource=use_resource,
    )
    step = sgd().minimize(ops.nn.l2_loss(v))
    np.testing.assert_array_equal(after_a_step(graph, step, v), [0.5, 0])


def test_constraint_on_rows_is_refused(graph):
    table = graphmill.Variable(np.ones((3, 2), "f"), constraint=lambda value: value)
    loss = ops.nn.l2_loss(ops.array.gather(table.handle.graph.convert(table), [1]))
    with pytest.raises(errors.InvalidArgumentError, match="constraint"):
        sgd().minimize(loss, var_list=[table])
