"""The operation of a graph at which an error arose."""

from __future__ import annotations

import pytest

from graphmill import errors, ops
from graphmill.graph.builder import Graph
from graphmill.graph.failed_operation import failed_operation, set_failed_operation
from graphmill.ops.attrs.attr_types import FuncAttr


@pytest.fixture
def graph() -> Graph:
    graph = Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        ops.math.neg(x, name="neg")
        types = {"Tin": [x.dtype], "Tout": [x.dtype]}
        graph.create_op("PartitionedCall", [x], {"f": FuncAttr("f", {}), **types}, name="call")
    return graph


def located(*names: str) -> errors.OpError:
    error = errors.InternalError("broke")
    for name in names:
        error.locate(node=name)
    return error


@pytest.mark.parametrize(
    ("names", "operation"),
    [
        ((), None),
        (("x",), "x"),
        (("call/x",), "call"),
        (("x", "call"), "call"),  # of the function, not the placeholder
        (("x", "cluster_1"), "x"),
        (("other", "cluster_1"), None),
        (("x", "neg"), "x"),  # which calls no function, so it only reports the error
    ],
)
def test_failed_operation_is_the_node_or_its_outermost_call(graph, names, operation) -> None:
    found = failed_operation(graph, located(*names))
    assert found is (None if operation is None else graph.node(operation))


def test_node_def_is_that_of_the_operation_that_failed_itself(graph) -> None:
    error = located("x")
    set_failed_operation(error, graph)
    assert error.node_def == next(n for n in graph.as_graph_def().node if n.name == "x")
    error = located("inner", "call")
    error.node_def = "its own"
    set_failed_operation(error, graph)
    assert (error.op, error.node_def) == (graph.node("call"), "its own")


def test_caller_is_a_node_of_the_graph(graph) -> None:
    error = located("x", "cluster_1")
    set_failed_operation(error, graph)
    assert (error.op, error.caller) == (graph.node("x"), None)
    error = located("call/x", "cluster_1")
    set_failed_operation(error, graph)
    assert (error.op, error.caller) == (graph.node("call"), "call")


def test_graph_object_is_created_when_the_operation_is_requested(graph) -> None:
    other, calls = Graph.from_graph_def(graph.as_graph_def()), []

    def graph_object() -> Graph | None:
        calls.append(1)
        return other

    error = located("x")
    set_failed_operation(error, graph, graph_object)
    assert not calls
    assert error.op is other.node("x")
    set_failed_operation(error, graph, lambda: None)
    assert error.op is graph.node("x")
