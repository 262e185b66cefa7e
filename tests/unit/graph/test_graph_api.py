"""Collections, declared shapes, references and messages of ops, as `tf.compat.v1` has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphmill
from graphmill import ops
from graphmill.errors import InvalidArgumentError, NotFoundError


@pytest.fixture
def graph():
    with graphmill.Graph().as_default() as built:
        built.placeholder("float32", None, name="x")
        yield built


def test_collections_lists_the_keys_of_empty_ones_too(graph) -> None:
    graph.add_to_collection("a", 1)
    graph.get_collection_ref("empty")
    keys = graph.collections
    assert keys == ["a", "empty"]
    keys.append("other")
    assert graph.collections == ["a", "empty"]
    graphmill.Variable(1.0)
    assert set(graph.collections) == {"variables", "trainable_variables", "a", "empty"}
    graph.clear_collection("empty")
    assert "empty" not in graph.collections


def test_op_def_for_type_finds_ops(graph) -> None:
    message = graph.op_def_for_type("MatMul")
    assert [arg.name for arg in message.input_arg] == ["a", "b"]
    with pytest.raises(NotFoundError, match="MatMull"):
        graph.op_def_for_type("MatMull")


def test_a_graph_builds_no_function(graph) -> None:
    assert graph.building_function is False


def test_set_shape_refines_nodes_that_are_added_later(graph) -> None:
    x = graph.get_tensor_by_name("x:0")
    before = ops.array.identity(x)
    x.set_shape([None, 3])
    after = ops.array.identity(x)
    assert (x.shape, before.shape.rank, after.shape) == ((None, 3), None, (None, 3))
    x.set_shape([2, None])
    assert x.shape == (2, 3)
    x.set_shape(None)
    assert x.shape == (2, 3)
    assert ops.math.mul(x, x).shape == (2, 3)


def test_set_shape_survives_edits_of_the_graph(graph) -> None:
    x = graph.get_tensor_by_name("x:0")
    y = ops.array.identity(x, name="y")
    y.set_shape(7)
    graph.set_attr(y.op, "_note", b"changed")
    assert y.shape == (7,)
    graph.library = type(graph.library)()
    assert y.shape == (7,)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ([2, 4], "must be equal, but are"),
        ([2], "equal rank"),
        (7, "equal rank"),
        ([-1, 3], "Dimension -1 must be >= 0"),
        ("a", "is not a shape"),
    ],
)
def test_set_shape_refuses_contradictions(graph, shape, message) -> None:
    x = graph.get_tensor_by_name("x:0")
    x.set_shape([None, 3])
    with pytest.raises(ValueError, match=message) as raised:
        x.set_shape(shape)
    assert isinstance(raised.value, InvalidArgumentError)
    assert x.shape == (None, 3)


def test_feeds_are_checked_against_declared_shapes(graph) -> None:
    x = graph.get_tensor_by_name("x:0")
    x.set_shape([None, 3])
    with graphmill.Session(graph=graph) as session:
        assert session.run(x, {x: np.ones((1, 3), np.float32)}).shape == (1, 3)
        with pytest.raises(ValueError, match=r"Cannot feed value of shape \(1, 2\)"):
            session.run(x, {x: np.ones((1, 2), np.float32)})


def test_a_reference_stands_for_its_tensor(graph) -> None:
    x, y = graph.get_tensor_by_name("x:0"), graph.placeholder("float32", [])
    assert x.ref().deref() is x
    assert {x.ref(): 1}[graph.get_tensor_by_name("x:0").ref()] == 1
    assert x.ref() != y.ref()
    assert (x.ref() == None) is False  # noqa: E711 - the operator is what is tested
    assert "Reference wrapping <Tensor 'x:0'" in repr(x.ref())
    with pytest.raises(TypeError, match="Cannot compare wrapped object with unwrapped object"):
        assert x.ref() == x


def test_colocation_groups_are_those_named_or_the_nodes_own(graph) -> None:
    a = graph.constant(1.0, name="a").op
    with graph.colocate_with(a):
        b = graph.constant(2.0, name="b").op
    with graph.colocate_with(b), graph.colocate_with(graph.node("x")):
        c = graph.constant(3.0, name="c").op
    groups = [node.colocation_groups() for node in (a, b, c)]
    assert groups == [[b"loc:@a"], [b"loc:@a"], [b"loc:@a", b"loc:@x"]]
    graph.set_attr(b, "_class", (b"other",))
    assert b.colocation_groups() == [b"loc:@b"]


def test_traceback_has_the_line_that_made_a_node(graph) -> None:
    node = graph.constant(1.0, name="here").op  # the line that is expected below
    (frame,) = node.traceback
    assert Path(frame.filename) == Path(__file__)
    assert frame.name.endswith("test_traceback_has_the_line_that_made_a_node")
    assert "the line that is expected below" in (frame.line or "")
    loaded = graphmill.Graph.from_graph_def(graph.as_graph_def())
    assert list(loaded.node("here").traceback) == []
