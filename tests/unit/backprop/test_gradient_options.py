"""Gradients are summed, gated and overridden as the caller asks."""

from __future__ import annotations

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops
from graphmill.plugin.gradient_registry import NoGradientError


@pytest.fixture
def graph():
    with graphmill.Graph().as_default() as graph:
        yield graph


def run(graph, fetches):
    with graphmill.Session(graph=graph) as session:
        return session.run(fetches)


def nodes_named(graph, part):
    return [node for node in graph.nodes if part in node.name]


@pytest.mark.parametrize(
    "method",
    [
        graphmill.AggregationMethod.EXPERIMENTAL_TREE,
        graphmill.AggregationMethod.EXPERIMENTAL_ACCUMULATE_N,
    ],
)
def test_gradients_are_added_one_after_the_other(graph, method):
    x = graph.constant([1.0, 2.0], name="x")
    y = x * 3.0 + x * 4.0 + x * 5.0
    (grad,) = graphmill.gradients(y, x, aggregation_method=method)
    np.testing.assert_array_equal(run(graph, grad), [12, 12])
    sums = nodes_named(graph, "gradients/x_gradient_sum/")
    assert [node.op for node in sums] == ["AddN", "AddN"]
    assert all(len(node.inputs) == 2 for node in sums)


def test_one_node_adds_all_gradients_by_default(graph):
    x = graph.constant([1.0, 2.0], name="x")
    y = x * 3.0 + x * 4.0 + x * 5.0
    (grad,) = graphmill.gradients(y, x)
    assert len(grad.op.inputs) == 3


def test_unknown_method_is_refused(graph):
    x = graph.constant(1.0)
    with pytest.raises(ValueError, match="aggregation_method: 7"):
        graphmill.gradients(x, x, aggregation_method=7)


def test_gradients_of_an_op_wait_for_each_other(graph):
    a, b = graph.constant(2.0, name="a"), graph.constant(3.0, name="b")
    y = ops.math.mul(a, b, name="y")
    grads = graphmill.gradients(y, [a, b], gate_gradients=True)
    assert run(graph, grads) == [3, 2]
    (gate,) = nodes_named(graph, "gradients/y_grad/tuple/group_deps")
    assert len(gate.control_inputs) == 2
    for index, grad in enumerate(grads):
        suffix = f"_{index}" if index else ""
        assert grad.op.name == f"gradients/y_grad/tuple/control_dependency{suffix}"
        assert grad.op.control_inputs == [gate]


def test_gated_rows_stay_rows(graph):
    table, scale = graph.constant(np.ones((4, 2), "f")), graph.constant(2.0)
    rows = ops.array.gather(table, [1, 3])
    y = rows * scale
    grads = graphmill.gradients(y, [table, scale], gate_gradients=True)
    assert isinstance(grads[0], graphmill.IndexedSlices)
    np.testing.assert_array_equal(run(graph, grads[0].values), np.full((2, 2), 2))


def test_gradient_is_the_one_that_the_scope_names(graph):
    host = graphmill.Host()

    @graphmill.gradient("TestHundredfold")
    def hundredfold(op, dy):
        del op
        return dy * 100.0

    host.gradients.add(hundredfold)
    x = graph.constant(3.0)
    with graph.gradient_override_map({"Square": "TestHundredfold", "Exp": "Neg"}):
        square, exp = ops.math.square(x), ops.math.exp(x)
    grads = [graphmill.gradients(y, x, host=host)[0] for y in (square, ops.math.square(x), exp)]
    np.testing.assert_allclose(run(graph, grads), [100, 6, -1])


def test_missing_gradient_of_a_scope_names_it(graph):
    x = graph.constant(3.0)
    with graph.gradient_override_map({"Square": "TestNobody"}):
        y = ops.math.square(x)
    with pytest.raises(NoGradientError, match="'TestNobody'") as caught:
        graphmill.gradients(y, x)
    assert isinstance(caught.value, LookupError)
    assert isinstance(caught.value, errors.NotFoundError)


def test_name_of_another_process_is_ignored(graph):
    x = graph.constant(3.0)
    with graph.gradient_override_map({"Square": "Square-17"}):
        y = ops.math.square(x)
    assert run(graph, graphmill.gradients(y, x)) == [6]
