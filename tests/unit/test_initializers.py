"""Initial values: shapes, types, seeds, and bad arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, initializers


def value_of(initializer: initializers.Initializer, shape: Any, dtype: Any = None) -> Any:
    graph = graphmill.Graph()
    with graph.as_default():
        value = initializer(shape, dtype)
    with graphmill.Session(graph=graph) as session:
        return session.run(value)


def test_orthogonal_matrix_has_orthonormal_columns() -> None:
    matrix = value_of(initializers.orthogonal(seed=1), [4, 2])
    np.testing.assert_allclose(matrix.T @ matrix, np.eye(2), atol=1e-6)


def test_constant_repeats_the_last_element() -> None:
    np.testing.assert_array_equal(value_of(initializers.constant([1, 2]), (2, 2)), [[1, 2], [2, 2]])


def test_type_of_the_call_wins() -> None:
    assert value_of(initializers.ones("int32"), []).dtype == np.int32
    assert value_of(initializers.ones("int32"), [], "float64").dtype == np.float64


@pytest.mark.parametrize("name", ["glorot_uniform", "he_normal", "lecun_uniform"])
def test_variance_is_divided_by_the_number_of_units(name: str) -> None:
    values = value_of(getattr(initializers, name)(seed=1), [200, 200])
    expected = {"glorot_uniform": 1, "he_normal": 2, "lecun_uniform": 1}[name] / 200
    assert values.var() == pytest.approx(expected, rel=0.05)


def test_variable_of_a_seeded_initializer_is_reproducible() -> None:
    def start(seed: int) -> Any:
        graph = graphmill.Graph()
        with graph.as_default():
            graphmill.set_random_seed(seed)
            w = graphmill.Variable(initializers.glorot_normal()([3, 2]), name="w")
            init = graphmill.global_variables_initializer()
        with graphmill.Session(graph=graph) as session:
            session.run(init)
            return session.run(w)

    np.testing.assert_array_equal(start(1), start(1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: initializers.zeros()([None, 2]), "is not known"),
        (lambda: initializers.identity()([2, 2, 2]), "must have two axes"),
        (lambda: initializers.orthogonal()([2]), "at least two axes"),
        (lambda: initializers.constant([1, 2, 3])([2]), "cannot fill"),
        (lambda: initializers.constant([1], verify_shape=True)([2]), "has the shape"),
        (lambda: initializers.variance_scaling(mode="fan"), "`mode` should be one of"),
        (lambda: initializers.variance_scaling(0), "must be a positive"),
        (lambda: initializers.variance_scaling(distribution="x"), "`distribution`"),
    ],
)
def test_initializer_refuses_bad_arguments(call: Any, message: str) -> None:
    with graphmill.Graph().as_default(), pytest.raises(errors.InvalidArgumentError, match=message):
        call()
