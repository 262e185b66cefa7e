"""Gradients of rankings along axes other than the last, which TensorFlow lacks."""

from __future__ import annotations

import numpy as np
import pytest

import graphmill
from graphmill.ops import array, nn


@pytest.mark.parametrize("axis", [0, -2])
def test_approx_top_k_has_a_gradient_along_rows(axis: int) -> None:
    with graphmill.Graph().as_default():
        x = array.placeholder(dtype="float32", shape=[2, 3])
        best = nn.approx_top_k(x, k=1, reduction_dimension=axis, is_max_k=False)
        gradient = graphmill.gradients(best.values, x, np.array([[1, 2, 3]], np.float32))
        with graphmill.Session() as session:
            found = session.run(gradient, {x: np.array([[1, 4, 6], [3, 5, 2]], np.float32)})
    np.testing.assert_array_equal(found[0], [[1, 2, 0], [0, 0, 3]])


def test_gradient_of_approx_top_k_needs_the_rank() -> None:
    with graphmill.Graph().as_default():
        x = array.placeholder(dtype="float32")
        best = nn.approx_top_k(x, k=1, reduction_dimension=0)
        with pytest.raises(graphmill.errors.InvalidArgumentError, match="needs the rank"):
            graphmill.gradients(best.values, x)


@pytest.mark.parametrize("shape", [(7,), (), (2, 0), (2, 2, 3)])
def test_gradient_of_isotonic_regression_has_the_shape_of_its_input(shape: tuple[int, ...]) -> None:
    with graphmill.Graph().as_default():
        x = array.placeholder(dtype="float32")
        y = nn.isotonic_regression(x).output
        gradient = graphmill.gradients(y, x)
        with graphmill.Session() as session:
            found = session.run(gradient, {x: np.arange(np.prod(shape)).reshape(shape)})
    np.testing.assert_array_equal(found[0], np.ones(shape, np.float32))
