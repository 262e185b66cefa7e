"""Control dependencies order nodes (clause G4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import graphmill
from graphmill import ops
from graphmill.errors import InvalidArgumentError
from graphmill.graph.builder import Graph, Tensor
from graphmill.graph.dependencies import group, with_dependencies
from graphmill.graph.dependencies import tuple as join
from graphmill.graph.node import Node
from graphmill.ops import control_flow

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def graph() -> Iterator[Graph]:
    made = Graph()
    with made.as_default():
        yield made


@pytest.fixture
def x(graph: Graph) -> Tensor:
    return graph.placeholder("int32", (), "x")


def waits(node: Node) -> list[str]:
    return [edge.src.name for edge in node.control_in_edges]


def test_the_package_has_the_names() -> None:
    assert graphmill.group is group
    assert graphmill.tuple is join
    assert graphmill.no_op is control_flow.no_op
    for name in ("Assert", "case", "cond", "switch_case", "while_loop", "with_dependencies"):
        assert callable(getattr(graphmill, name))


def test_a_group_waits_for_structures(x: Tensor) -> None:
    node = group(x, [x + 1, {"a": (x + 2).op}], name="all")
    assert (node.name, node.op, waits(node)) == ("all", "NoOp", ["x", "add", "add_1"])


def test_empty_group_waits_for_nothing(graph: Graph) -> None:
    assert waits(group()) == []


def test_a_group_gathers_on_each_device(graph: Graph, x: Tensor) -> None:
    with graph.device("/gpu:0"):
        y, z = x + 1, x + 2
    node = group(x, y, z)
    parts = [edge.src for edge in node.control_in_edges]
    assert [(part.device, waits(part)) for part in parts] == [
        ("", ["x"]),
        ("/device:GPU:0", ["add", "add_1"]),
    ]


def test_a_group_is_where_its_nodes_are(graph: Graph, x: Tensor) -> None:
    with graph.device("/gpu:0"):
        y = x + 1
    assert group(y).device == "/device:GPU:0"


def test_a_tuple_waits_for_all(x: Tensor) -> None:
    late = control_flow.no_op(name="late")
    node = control_flow.no_op(name="node")
    a, b, nothing, done = join([x, 3, None, node], control_inputs=[late])
    gate = a.op.control_in_edges[0].src
    assert waits(gate) == ["x", "late", "node", "tuple/Const"]
    assert waits(b.op) == [gate.name]
    assert nothing is None
    assert isinstance(done, Node)
    assert set(waits(done)) == {gate.name, "node"}


def test_tensor_waits_for_its_dependencies(graph: Graph, x: Tensor) -> None:
    with graph.device("/gpu:0"):
        y = graph.constant(1, name="y")
    z = with_dependencies([x, control_flow.no_op(name="late")], y)
    assert (z.op.op, waits(z.op), z.device) == ("Identity", ["x", "late"], "/device:GPU:0")


def test_reference_remains_a_reference(graph: Graph, x: Tensor) -> None:
    v = ops.state.variable_v2(shape=(), dtype="int32", name="v")
    assert with_dependencies([x], v).dtype.is_ref


def test_wrong_arguments_are_refused(graph: Graph, x: Tensor) -> None:
    with pytest.raises(InvalidArgumentError, match="a tensor or a node to wait for, got 3"):
        group(x, 3)
    with pytest.raises(InvalidArgumentError, match="a tensor or a node to wait for"):
        with_dependencies(["x"], x)  # type: ignore[list-item]
    with pytest.raises(InvalidArgumentError, match="tuple got no tensors"):
        join([None])
