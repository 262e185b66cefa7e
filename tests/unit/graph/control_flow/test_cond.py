"""Conditionals are built from Switch and Merge; nodes run only in the taken branch (clause G4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from graphmill import ops
from graphmill.errors import FailedPreconditionError, InvalidArgumentError
from graphmill.graph.builder import Graph, Tensor
from graphmill.graph.control_flow.cond import cond
from graphmill.graph.control_flow.cond_context import CondContext
from graphmill.ops import control_flow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill.graph.node import Node


@pytest.fixture
def graph() -> Iterator[Graph]:
    made = Graph()
    with made.as_default():
        yield made


@pytest.fixture
def x(graph: Graph) -> Tensor:
    return graph.placeholder("int32", (), "x")


@pytest.fixture
def pred(graph: Graph) -> Tensor:
    return graph.placeholder("bool", (), "pred")


def inputs(node: Node) -> list[str]:
    return [edge.tensor_name for edge in (*node.in_edges, *node.control_in_edges)]


def test_conditional_has_tensorflows_nodes(graph: Graph, pred: Tensor, x: Tensor) -> None:
    y = cond(pred, lambda: x + 1, lambda: -x)
    assert {node.name: (node.op, inputs(node)) for node in graph} == {
        "pred": ("Placeholder", []),
        "x": ("Placeholder", []),
        "cond/Switch": ("Switch", ["pred", "pred"]),
        "cond/switch_t": ("Identity", ["cond/Switch:1"]),
        "cond/switch_f": ("Identity", ["cond/Switch"]),
        "cond/pred_id": ("Identity", ["pred"]),
        "cond/add/y": ("Const", ["^cond/switch_t"]),
        "cond/add/Switch": ("Switch", ["x", "cond/pred_id"]),
        "cond/add": ("AddV2", ["cond/add/Switch:1", "cond/add/y"]),
        "cond/Neg/Switch": ("Switch", ["x", "cond/pred_id"]),
        "cond/Neg": ("Neg", ["cond/Neg/Switch"]),
        "cond/Merge": ("Merge", ["cond/Neg", "cond/add"]),
    }
    assert y.name == "cond/Merge:0"


def test_tensor_is_captured_once_for_each_branch(graph: Graph, pred: Tensor, x: Tensor) -> None:
    cond(pred, lambda: x + x * x, lambda: x - x)
    switches = [node for node in graph if node.op == "Switch" and inputs(node)[0] == "x"]
    assert len(switches) == 2


def test_switches_are_where_their_tensor_is(graph: Graph, pred: Tensor) -> None:
    with graph.device("/gpu:0"):
        x = graph.placeholder("int32", (), "x")
    with graph.device("/cpu:0"), graph.colocate_with(pred):
        cond(pred, lambda: x + 1, lambda: x)
    switch = graph.node("cond/add/Switch")
    assert switch.device == "/device:GPU:0"
    assert switch.attrs["_class"] == (b"loc:@x",)


def test_a_conditional_has_tensorflows_names_and_scopes(graph: Graph, pred: Tensor) -> None:
    with graph.name_scope("outer"):
        y = cond(pred, lambda: graph.constant(1), lambda: graph.constant(2), name="choice")
    assert y.name == "outer/choice/Merge:0"
    contexts = {
        graph.control_flow.context_of(graph.node(f"outer/choice/{name}"))
        for name in ("Const", "Const_1")
    }
    assert {context.name for context in contexts if context is not None} == {
        "outer/choice/cond_text",
        "outer/choice/cond_text_1",
    }


def test_a_tensor_from_outside_may_be_the_result(graph: Graph, pred: Tensor, x: Tensor) -> None:
    y = cond(pred, lambda: x, lambda: x)
    assert inputs(y.op) == ["cond/Switch_2", "cond/Switch_1:1"]


def test_branches_may_return_structures(graph: Graph, pred: Tensor, x: Tensor) -> None:
    found = cond(pred, lambda: {"a": [x + 1, 2], "b": (x,)}, lambda: {"b": (0,), "a": [x, x]})
    assert set(found) == {"a", "b"}
    assert [tensor.op.op for tensor in (*found["a"], *found["b"])] == ["Merge"] * 3


@pytest.mark.parametrize(("strict", "kind"), [(False, Tensor), (True, list)])
def test_list_of_one_is_unpacked(pred: Tensor, x: Tensor, strict: bool, kind: type) -> None:
    assert isinstance(cond(pred, lambda: [x], lambda: [x + 1], strict=strict), kind)


def test_a_node_as_result_becomes_a_bool(graph: Graph, pred: Tensor, x: Tensor) -> None:
    done = cond(pred, lambda: (x + 1).op, control_flow.no_op)
    assert done.dtype.name == "bool"
    assert inputs(graph.node("cond/control_dependency")) == ["cond/switch_t", "^cond/add"]


def test_references_stay_references(graph: Graph, pred: Tensor) -> None:
    v = ops.state.variable_v2(shape=(), dtype="int32", name="v")
    y = cond(pred, lambda: ops.state.assign_add(v, 1), lambda: ops.state.assign_sub(v, 1))
    assert y.op.op == "RefMerge"
    assert graph.node("cond/AssignAdd").in_edges[0].src.op == "RefSwitch"


def test_one_reference_and_one_value_give_a_value(pred: Tensor, x: Tensor) -> None:
    v = ops.state.variable_v2(shape=(), dtype="int32", name="v")
    assert cond(pred, lambda: v, lambda: x).op.op == "Merge"


def test_nested_conditionals_capture_level_by_level(graph: Graph, pred: Tensor, x: Tensor) -> None:
    cond(pred, lambda: cond(x > 2, lambda: x * 2, lambda: x), lambda: x)
    inner = graph.node("cond/cond/mul/Switch")
    assert inputs(inner) == ["cond/Greater/Switch:1", "cond/cond/pred_id"]
    context = graph.control_flow.context_of(inner)
    assert isinstance(context, CondContext)
    assert context.outer is graph.control_flow.context_of(graph.node("cond/Greater"))


# Control dependencies.


def test_nodes_wait_within_a_branch(graph: Graph, pred: Tensor, x: Tensor) -> None:
    def branch() -> Tensor:
        with graph.control_dependencies([x + 5]):
            return graph.constant(1)

    cond(pred, branch, lambda: x)
    assert inputs(graph.node("cond/Const")) == ["^cond/add"]


def test_nodes_of_a_branch_wait_for_nodes_outside(graph: Graph, pred: Tensor, x: Tensor) -> None:
    gate = control_flow.no_op(name="gate")

    def branch() -> Tensor:
        with graph.control_dependencies([gate]):
            return graph.constant(1)

    cond(pred, branch, lambda: x)
    assert inputs(graph.node("cond/Const")) == ["^gate", "^cond/switch_t"]


def test_predicate_has_control_inputs_of_the_conditional(
    graph: Graph, pred: Tensor, x: Tensor
) -> None:
    with graph.control_dependencies([control_flow.no_op(name="gate")]):
        cond(pred, lambda: x, lambda: x)
    assert inputs(graph.node("cond/pred_id")) == ["pred", "^gate"]


def test_control_dependencies_none_leaves_the_branch(graph: Graph, pred: Tensor, x: Tensor) -> None:
    def branch() -> Tensor:
        with graph.control_dependencies(None):
            free = graph.constant(1, name="free")
        return free + x

    cond(pred, branch, lambda: x)
    free = graph.node("cond/free")
    assert inputs(free) == []
    assert graph.control_flow.context_of(free) is None


# Errors.


def returns(value: Any) -> Any:
    return lambda: value


@pytest.mark.parametrize(
    ("yes", "no", "message"),
    [
        (returns(1), returns(1.5), r"true_fn\(\) is int32 .* false_fn returns float32 there"),
        (
            returns((1, 2)),
            returns((1, 2, 3)),
            r"false_fn\(\) is a tuple of 3, but true_fn\(\) is a",
        ),
        (returns({"a": 1}), returns({"b": 1}), r"keys \['b'\], but true_fn"),
        (returns(None), returns(1), "true_fn returned None.*graphmill.no_op"),
        (returns(1), returns(None), "false_fn returned None"),
        (returns([1, None]), returns([1, 2]), r"true_fn\(\)\[1\]: None is not a tensor"),
        (returns([]), returns([]), "at least one is needed"),
        (1, returns(1), "true_fn is 1, expected a function"),
        (returns(1), 2, "false_fn is 2, expected a function"),
    ],
)
def test_branches_of_different_types_are_refused(
    pred: Tensor, yes: Any, no: Any, message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        cond(pred, yes, no)


def test_predicate_must_not_be_a_python_bool(graph: Graph) -> None:
    with pytest.raises(InvalidArgumentError, match="use Python's if"):
        cond(True, lambda: 1, lambda: 2)


def test_a_predicate_is_bool(x: Tensor) -> None:
    with pytest.raises(InvalidArgumentError, match="int32, expected bool"):
        cond(x, lambda: 1, lambda: 2)


def test_a_value_as_predicate_needs_a_default_graph() -> None:
    with pytest.raises(FailedPreconditionError, match="no default graph"):
        cond([True], lambda: 1, lambda: 2)


def test_branches_use_the_graph_of_the_predicate() -> None:
    graph = Graph()
    pred = graph.placeholder("bool", ())
    with Graph().as_default():
        y = cond(pred, lambda: ops.array.identity(1), lambda: 2)
    assert y.graph is graph


def test_a_failing_branch_leaves_the_context(graph: Graph, pred: Tensor, x: Tensor) -> None:
    def branch() -> Tensor:
        raise KeyError("mine")

    with pytest.raises(KeyError):
        cond(pred, branch, lambda: x)
    assert graph.control_flow.current is None
    assert inputs((x + 1).op)[0] == "x"
