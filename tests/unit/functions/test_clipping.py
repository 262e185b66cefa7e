"""Clipping by value and norm: rows, None, and bad arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, train

X = np.array([[3.0, 0.0], [0.0, 4.0]], np.float32)


def run(fetches: Any, graph: graphmill.Graph) -> Any:
    with graphmill.Session(graph=graph) as session:
        return session.run(fetches)


def test_global_norm_clips_all_tensors_by_one_factor() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.constant(X)
        rows = graphmill.IndexedSlices(x, graph.constant([0, 1]), graph.constant([5, 2]))
        clipped, norm = train.clip_by_global_norm([x, None, rows], 1.0)
        same, _ = train.clip_by_global_norm([x], 100.0)
    assert clipped[1] is None
    assert isinstance(clipped[2], graphmill.IndexedSlices)
    values = run([clipped[0], clipped[2].values, norm, same[0]], graph)
    assert values[2] == pytest.approx(50**0.5)
    np.testing.assert_allclose(values[0], X / 50**0.5, rtol=1e-6)
    np.testing.assert_allclose(values[1], X / 50**0.5, rtol=1e-6)
    np.testing.assert_allclose(values[3], X, rtol=1e-6)


def test_norm_that_is_not_finite_makes_everything_nan() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        clipped, _ = train.clip_by_global_norm([X, np.float32([np.inf])], 1.0)
    assert np.isnan(run(clipped[0], graph)).all()


def test_norm_of_zeros_has_a_gradient() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.constant(np.zeros(2, np.float32))
        (gradient,) = graphmill.gradients(train.clip_by_norm(x, 1.0), [x])
    np.testing.assert_array_equal(run(gradient, graph), [1, 1])


def test_value_clips_rows() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        rows = graphmill.IndexedSlices(
            graph.constant(X), graph.constant([0, 1]), graph.constant([5, 2])
        )
        clipped = train.clip_by_value(rows, 1.0, 3.5)
    np.testing.assert_array_equal(run(clipped.values, graph), [[3, 1], [1, 3.5]])


@pytest.mark.parametrize("bad", [np.float32([1.0]), "abc", 3])
def test_global_norm_refuses_a_value_that_is_not_a_list(bad: Any) -> None:
    with pytest.raises(errors.InvalidValueError, match="should be a sequence of tensors"):
        train.global_norm(bad)


def test_global_norm_refuses_a_list_without_tensors() -> None:
    with pytest.raises(errors.InvalidValueError, match="holds no tensor"):
        train.clip_by_global_norm([None], 1.0)
