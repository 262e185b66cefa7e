"""`Variable`: its static shape, and the interface that `tf.compat.v1.Variable` has."""

from __future__ import annotations

import pytest

import graphmill
from graphmill import functions
from graphmill.errors import InvalidArgumentError
from graphmill.export.freeze import freeze


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


@pytest.mark.parametrize("use_resource", [True, False])
def test_variable_is_named_after_its_handle_and_fetched_by_its_read(use_resource: bool) -> None:
    graph = graphmill.Graph()
    with graph.as_default(), graph.name_scope("s"):
        v = graphmill.Variable([1.0, 2.0], name="v", use_resource=use_resource)
    assert v.name == "s/v:0"
    assert repr(v) == "<Variable 's/v:0' shape=(2,) dtype=float32>"
    with graphmill.Session(graph=graph) as session:
        session.run(v.initializer)
        assert session.run(v).tolist() == [1.0, 2.0]
        assert session.run({"v": v})["v"].tolist() == [1.0, 2.0]
        assert session.run(v, {v: [3.0, 4.0]}).tolist() == [3.0, 4.0]
        assert session.run(v.value()).tolist() == [1.0, 2.0]
        assert v.eval(session).tolist() == [1.0, 2.0]
        assert session.make_callable(v, [v])([5.0, 6.0]).tolist() == [5.0, 6.0]


@pytest.mark.parametrize("use_resource", [True, False])
def test_load_assigns_without_new_nodes(use_resource: bool) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        v = graphmill.Variable([1.0, 2.0], use_resource=use_resource)
    size = len(graph)
    with graphmill.Session(graph=graph) as session:
        v.load([3.0, 4.0])
        assert session.run(v).tolist() == [3.0, 4.0]
    assert len(graph) == size


@pytest.mark.parametrize("use_resource", [True, False])
@pytest.mark.parametrize(
    ("method", "expected"), [("assign", 2), ("assign_add", 3), ("assign_sub", -1)]
)
def test_assignments_return_the_new_value_or_their_node(
    use_resource: bool, method: str, expected: float
) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        v = graphmill.Variable(1.0, use_resource=use_resource)
        new = getattr(v, method)(2.0)
        node = getattr(v, method)(2.0, use_locking=True, name="change", read_value=False)
    assert node.name == "change"
    with graphmill.Session(graph=graph) as session:
        session.run(v.initializer)
        assert session.run(new) == expected
        session.run(v.initializer)
        assert session.run(node) is None
        assert session.run(v) == expected


def test_frozen_graph_returns_the_value_of_a_variable() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        v = graphmill.Variable(2.0, name="v")
        y = v * x
    with graphmill.Session(graph=graph) as session:
        session.run(v.initializer)
        frozen = freeze(session, {"x": x}, {"v": v, "y": y})
    with graphmill.Session(graph=graphmill.Graph.from_graph_def(frozen.graph_def)) as session:
        assert session.run([f"{v.op.name}:0", y.name], {"x:0": 3.0}) == [2.0, 6.0]


def test_variables_are_selected_by_scope() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        with graph.name_scope("a"):
            w = graphmill.Variable(1.0, name="w")
            step = graphmill.Variable(0, name="step", trainable=False)
        graphmill.Variable(1.0, name="b/a")
        assert graphmill.global_variables("a/") == [w, step]
        assert graphmill.trainable_variables(scope="a/") == [w]
        assert functions.get_collection("variables", "a/w") == [w]
        graph.add_to_collection("variables", 3)
        assert functions.get_collection("variables", scope="a/w") == [w]


def test_graph_as_first_argument_of_variable_functions_warns() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        v = graphmill.Variable(1.0, name="v")
    for function in (graphmill.global_variables, graphmill.trainable_variables):
        with pytest.warns(DeprecationWarning, match=f"of {function.__name__} is now 'graph'"):
            assert function(graph) == [v]
        assert function(graph=graph) == [v]


@pytest.mark.parametrize("use_resource", [True, False])
def test_initialized_value_is_the_initial_value_until_there_is_another(use_resource: bool) -> None:
    with graphmill.Graph().as_default(), graphmill.Session() as session:
        variable = graphmill.Variable(1.0, use_resource=use_resource)
        value = variable.initialized_value()
        assert session.run(value) == 1.0
        session.run(variable.assign(2.0))
        assert session.run(value) == 2.0


def test_variable_is_made_from_its_message() -> None:
    with graphmill.Graph().as_default() as graph:
        variable = graphmill.Variable(1.0, name="v", trainable=False)
        copy = graphmill.Variable.from_proto(variable.to_proto(), graph)
    assert (copy.handle, copy.initializer) == (variable.handle, variable.initializer)
    assert not copy.trainable
