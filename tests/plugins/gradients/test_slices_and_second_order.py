"""`IndexedSlices` gradients pass through every op, and gradients have gradients."""

from __future__ import annotations

import numpy as np
import pytest

import graphmill
from graphmill import ops

pytestmark = pytest.mark.divided

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.5]])


def evaluate(build):
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float64", X.shape, name="x")
        fetches = build(graph, x)
    with graphmill.Session(graph=graph) as session:
        return session.run(fetches, {x: X})


def dense(gradient):
    return gradient if isinstance(gradient, graphmill.Tensor) else gradient.to_tensor()


@pytest.mark.parametrize(
    ("through", "expected"),
    [
        (lambda x: ops.math.mat_mul(x, [[1.0, 0, 0], [0, 2.0, 0], [0, 0, 1.0]]), [[2, 4, 2]]),
        (lambda x: ops.math.cumsum(x, 1), [[6, 4, 2]]),
        (lambda x: ops.array.reverse_v2(x, [1]), [[2, 2, 2]]),
        (lambda x: ops.math.segment_sum(x, [0, 1]), [[2, 2, 2]]),
        (ops.array.identity, [[2, 2, 2]]),
        (lambda x: ops.logging.print(x, [x], message="printed"), [[2, 2, 2]]),
    ],
    ids=["MatMul", "Cumsum", "ReverseV2", "SegmentSum", "Identity", "Print"],
)
def test_rows_that_were_read_twice(through, expected) -> None:
    def build(graph, x):
        y = ops.array.gather_v2(through(x), [0, 0], 0)
        return dense(graphmill.gradients(y, [x])[0])

    np.testing.assert_array_equal(evaluate(build), [*expected, [0, 0, 0]])


def test_slices_are_passed_to_gradient_functions_that_accept_them() -> None:
    received = []

    @graphmill.gradient("Tanh", slices=True)
    def tanh_gradient(_op, dy):
        received.append(dy)
        return dy

    host = graphmill.Host()
    host.gradients.add(tanh_gradient)
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float64", X.shape, name="x")
        y = ops.array.gather_v2(ops.math.tanh(x), [0, 0], 0)
        graphmill.gradients(y, [x], host=host)
    assert not isinstance(received[0], graphmill.Tensor)


@pytest.mark.parametrize(
    "op",
    [
        lambda x: ops.linalg.einsum([x, x], equation="ij,kj->ik"),
        lambda x: ops.math.cumulative_logsumexp(x, 1),
    ],
    ids=["Einsum", "CumulativeLogsumexp"],
)
def test_gradients_that_jax_finds_have_gradients(op) -> None:
    step = 1e-5

    def slope(graph, x):
        first = graphmill.gradients(op(x), [x])[0]
        return first, graphmill.gradients(first * first, [x])[0]

    _, second = evaluate(slope)
    found = np.zeros_like(X)
    for place in np.ndindex(X.shape):
        ends = []
        for sign in (1, -1):
            moved = X.copy()
            moved[place] += sign * step

            def squares(_graph, x, moved=moved):
                first = graphmill.gradients(op(x + (moved - X)), [x])[0]
                return ops.math.sum(first * first, [0, 1])

            ends.append(evaluate(squares))
        found[place] = (ends[0] - ends[1]) / (2 * step)
    np.testing.assert_allclose(second, found, rtol=1e-6, atol=1e-6)
