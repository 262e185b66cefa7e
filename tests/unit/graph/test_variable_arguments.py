"""`Variable` takes the arguments of `tf.compat.v1.Variable`, in its order."""

from __future__ import annotations

import numpy as np
import pytest

import graphmill
from graphmill.graph.variable import Variable


@pytest.fixture
def graph():
    with graphmill.Graph().as_default() as graph:
        yield graph


def test_order_is_that_of_tensorflow(graph):
    v = Variable([1, 2], False, ["mine"], True, None, "v", None, "float64", [2], None, abs, False)
    assert (v.name, v.value_dtype.name, v.trainable, v.is_resource) == (
        "v:0",
        "float64",
        False,
        False,
    )
    assert v.constraint is abs
    assert graph.get_collection("mine") == [v]
    assert graphmill.global_variables() == []


def test_name_and_type_may_come_third_with_a_warning(graph):
    with pytest.warns(DeprecationWarning, match="third argument of Variable"):
        v = Variable([1, 2], True, "v", "float64")
    assert (v.name, v.value_dtype.name) == ("v:0", "float64")
    assert graphmill.global_variables() == [v]


@pytest.mark.parametrize(
    ("collections", "trainable", "found", "global_", "trained"),
    [
        (None, True, [], True, True),
        ([], True, [], False, True),
        (["a", "b"], True, ["a", "b"], False, True),
        (["a", "variables"], False, ["a"], True, False),
        (["variables", "trainable_variables"], True, [], True, True),
    ],
)
def test_variable_is_in_its_collections(graph, collections, trainable, found, global_, trained):
    v = Variable(1.0, trainable, collections)
    assert [key for key in ("a", "b") if v in graph.get_collection(key)] == found
    assert (graphmill.global_variables() == [v]) == global_
    assert graphmill.trainable_variables() == ([v] if trained else [])
    assert graph.get_collection("trainable_variables") == ([v] if trained else [])


@pytest.mark.parametrize("use_resource", [True, False])
def test_shape_need_not_be_that_of_the_initial_value(graph, use_resource):
    v = Variable([1.0, 2.0], validate_shape=False, use_resource=use_resource)
    assert v.static_shape is None
    change = v.assign([1.0, 2.0, 3.0]) if use_resource else None
    with graphmill.Session(graph=graph) as session:
        session.run(v.initializer)
        if change is not None:
            assert session.run(change).shape == (3,)


def test_expected_shape_is_checked(graph):
    with pytest.raises(graphmill.errors.InvalidArgumentError, match="initial value has shape"):
        Variable([1.0, 2.0], expected_shape=[3])


@pytest.mark.parametrize("use_resource", [True, False])
def test_read_value_is_kept_on_a_device(graph, use_resource):
    with graph.device("/job:ps"):
        v = Variable(1.0, caching_device="/job:worker", use_resource=use_resource)
    assert v.handle.device == "/job:ps"
    assert v.op.device.startswith("/job:worker")
    assert v.op.op == "Identity"


def test_shape_is_refined(graph):
    v = Variable([[1.0, 2.0]], validate_shape=False)
    v.set_shape([None, 2])
    assert v.shape == (None, 2)
    assert v.get_shape() == (None, 2)
    assert v.static_shape is None
    v.set_shape([1, None])
    assert v.static_shape == (1, 2)
    with pytest.raises(ValueError, match=v.name):
        v.set_shape([3, 2])


def test_variable_is_made_of_existing_nodes(graph):
    with graph.name_scope("scope"):
        v = Variable([1.0, 2.0], name="v")
    definition = v.to_proto()
    same = Variable(variable_def=definition)
    inner = Variable.from_proto(v.to_proto("scope"), "scope")
    other = Variable.from_proto(definition, graph)
    for found in (same, inner, other):
        assert (found.name, found.initializer) == (v.name, v.initializer)
        assert found.initial_value == v.initial_value
        assert found.shape == (2,)
    assert v.to_proto("elsewhere") is None
    assert graphmill.global_variables() == [v]


@pytest.mark.parametrize("both", [True, False])
def test_initial_value_or_definition_is_needed(graph, both):
    arguments = {"initial_value": 1.0, "variable_def": Variable(1.0).to_proto()} if both else {}
    with pytest.raises(ValueError, match="either an initial_value or a variable_def"):
        Variable(**arguments)


def test_false_and_zero_are_initial_values(graph):
    values = [Variable(False), Variable(0), Variable(np.zeros(2))]
    assert [v.value_dtype.name for v in values] == ["bool", "int32", "float64"]
