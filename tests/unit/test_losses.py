"""Losses: collections, weights of unknown shape, and bad arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, losses

LABELS = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)


def test_total_loss_adds_losses_and_regularization() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        losses.mean_squared_error(LABELS, LABELS + 1)
        with graph.name_scope("second"):
            losses.absolute_difference(LABELS, LABELS + 3)
        losses.absolute_difference(LABELS, LABELS, loss_collection=None)
        graph.add_to_collection("regularization_losses", graph.constant(0.5))
        fetches = [
            losses.get_total_loss(),
            losses.get_total_loss(False),
            losses.get_total_loss(False, scope="second"),
            losses.get_regularization_loss(),
        ]
    assert len(graph.get_collection("losses")) == 2
    with graphmill.Session(graph=graph) as session:
        assert session.run(fetches) == [4.5, 4.0, 3.0, 0.5]


def test_total_loss_of_a_graph_without_losses_is_refused() -> None:
    with graphmill.Graph().as_default():
        with pytest.raises(errors.InvalidArgumentError, match="the graph has no losses"):
            losses.get_total_loss()
        assert losses.get_regularization_loss().op.op == "Const"


@pytest.mark.parametrize(
    ("weights", "expected"),
    [(np.float32(2), 2.0), (np.float32([[1], [0]]), 1.0), (np.ones((2, 2), np.float32), 1.0)],
)
def test_weights_of_unknown_shape_are_checked_by_the_step(weights: Any, expected: float) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        fed = graph.placeholder("float32")
        loss = losses.mean_squared_error(LABELS, LABELS + 1, fed)
    with graphmill.Session(graph=graph) as session:
        assert session.run(loss, {fed: weights}) == expected
        for bad in (np.ones(2), np.ones((2, 3)), np.ones((2, 2, 1))):
            with pytest.raises(errors.InvalidArgumentError, match="can not be broadcast"):
                session.run(loss, {fed: bad})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: losses.mean_squared_error(LABELS, LABELS[:1]), "are incompatible"),
        (lambda: losses.mean_squared_error(LABELS, LABELS, [1.0, 1.0]), "can not be broadcast"),
        (
            lambda: losses.mean_squared_error(LABELS, LABELS, reduction="mean"),
            "Invalid Reduction Key 'mean'. Key should be one of",
        ),
        (lambda: losses.cosine_distance(LABELS, LABELS), "specify argument `axis`"),
    ],
)
def test_loss_refuses_bad_arguments(call: Any, message: str) -> None:
    with graphmill.Graph().as_default(), pytest.raises(errors.InvalidArgumentError, match=message):
        call()


def test_weights_of_zero_give_no_loss_and_no_gradient() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.constant(LABELS)
        loss = losses.huber_loss(LABELS, x * 2, 0.0)
        (gradient,) = graphmill.gradients(loss, [x])
    with graphmill.Session(graph=graph) as session:
        value, slope = session.run([loss, gradient])
    assert value == 0
    assert not slope.any()
