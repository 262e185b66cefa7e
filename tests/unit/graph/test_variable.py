"""`Variable`: its static shape."""

from __future__ import annotations

import pytest

import graphmill
from graphmill import functions
from graphmill.errors import InvalidArgumentError


@pytest.mark.parametrize("use_resource", [True, False])
def test_variable_has_the_static_shape_of_its_initial_value(use_resource: bool) -> None:
    with graphmill.Graph().as_default():
        computed = graphmill.Variable(
            lambda: functions.zeros([4, 3]) + 1.0, use_resource=use_resource
        )
        drawn = graphmill.Variable(
            graphmill.initializers.glorot_uniform()([5, 16]), use_resource=use_resource
        )
    assert computed.static_shape == (4, 3)
    assert drawn.static_shape == (5, 16)
    assert drawn.shape.as_list() == [5, 16]


def test_product_with_a_variable_of_wrong_shape_is_refused_when_it_is_built() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None, 5])
        weights = graphmill.Variable(functions.zeros([6, 16]))
        with pytest.raises(InvalidArgumentError, match="must be equal, but are 5 and 6"):
            _ = (x @ weights).shape


def test_variable_of_a_partly_known_shape_has_none() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        value = graph.placeholder("float32", [None, 3])
        assert graphmill.Variable(value).static_shape is None
        assert graphmill.Variable(value, shape=[2, 3]).static_shape == (2, 3)


def test_variable_refuses_a_shape_that_its_initial_value_does_not_have() -> None:
    with (
        graphmill.Graph().as_default(),
        pytest.raises(InvalidArgumentError, match="the initial value has shape"),
    ):
        graphmill.Variable([1.0, 2.0], shape=[3])
