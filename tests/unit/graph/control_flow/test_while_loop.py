"""Loops are built from Enter, Merge, Switch, NextIteration, Exit and LoopCond (clause G4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

from graphmill import dtypes, ops
from graphmill.errors import FailedPreconditionError, InvalidArgumentError
from graphmill.graph.builder import Graph, Tensor
from graphmill.graph.control_flow.cond import cond
from graphmill.graph.control_flow.while_context import WhileContext
from graphmill.graph.control_flow.while_loop import while_loop
from graphmill.ops import control_flow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill.graph.node import Node


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass
class State:
    step: Any
    parts: Any


@pytest.fixture
def graph() -> Iterator[Graph]:
    made = Graph()
    with made.as_default():
        yield made


@pytest.fixture
def x(graph: Graph) -> Tensor:
    return graph.placeholder("int32", (), "x")


def inputs(node: Node) -> list[str]:
    return [edge.tensor_name for edge in (*node.in_edges, *node.control_in_edges)]


def enters(graph: Graph, *, constant: bool) -> list[Node]:
    return [n for n in graph if n.op == "Enter" and n.attrs["is_constant"] is constant]


def count_to(x: Any, **kwargs: Any) -> Any:
    return while_loop(lambda i: i < x, lambda i: i + 1, [0], **kwargs)


def test_loop_has_tensorflows_nodes(graph: Graph, x: Tensor) -> None:
    last = count_to(x)
    assert {node.name: (node.op, inputs(node)) for node in graph} == {
        "x": ("Placeholder", []),
        "while/Const": ("Const", []),
        "while/Enter": ("Enter", ["while/Const"]),
        "while/Merge": ("Merge", ["while/Enter", "while/NextIteration"]),
        "while/Less/Enter": ("Enter", ["x"]),
        "while/Less": ("Less", ["while/Merge", "while/Less/Enter"]),
        "while/LoopCond": ("LoopCond", ["while/Less"]),
        "while/Switch": ("Switch", ["while/Merge", "while/LoopCond"]),
        "while/Identity": ("Identity", ["while/Switch:1"]),
        "while/add/y": ("Const", ["^while/Identity"]),
        "while/add": ("AddV2", ["while/Identity", "while/add/y"]),
        "while/NextIteration": ("NextIteration", ["while/add"]),
        "while/Exit": ("Exit", ["while/Switch"]),
    }
    assert last.name == "while/Exit:0"


def test_every_enter_names_the_frame(graph: Graph, x: Tensor) -> None:
    count_to(x, parallel_iterations=3, name="outer")
    found = [node.attrs for node in graph if node.op == "Enter"]
    assert [attrs["is_constant"] for attrs in found] == [False, True]
    assert {(attrs["frame_name"], attrs["parallel_iterations"]) for attrs in found} == {
        (b"outer/while_context", 3)
    }


def test_frames_have_their_own_names(graph: Graph, x: Tensor) -> None:
    count_to(x)
    count_to(x)
    frames = {node.attrs["frame_name"] for node in graph if node.op == "Enter"}
    assert frames == {b"while/while_context", b"while_1/while_context"}


def test_hints_are_kept(graph: Graph, x: Tensor) -> None:
    count_to(x, back_prop=False, swap_memory=True)
    context = graph.control_flow.context_of(graph.node("while/Less"))
    assert isinstance(context, WhileContext)
    assert (context.back_prop, context.swap_memory) == (False, True)


def test_an_invariant_enters_once(graph: Graph, x: Tensor) -> None:
    while_loop(lambda i: i < x, lambda i: i + x * x, [0])
    assert [inputs(node) for node in enters(graph, constant=True)] == [["x"]]


def test_an_invariant_enters_each_loop_around(graph: Graph, x: Tensor) -> None:
    while_loop(lambda i: i < 3, lambda i: i + count_to(x), [0])
    outer, inner = sorted(enters(graph, constant=True), key=lambda node: node.id)
    assert inputs(outer) == ["x"]
    assert inputs(inner) == [outer.name]
    assert inner.attrs["frame_name"] == b"while/while/while_context"


def test_invariant_nodes_run_with_the_body(graph: Graph, x: Tensor) -> None:
    while_loop(lambda i: i < 3, lambda i: ops.math.neg(x), [0])
    assert inputs(graph.node("while/Neg")) == ["while/Neg/Enter", "^while/Identity"]


def test_invariant_nodes_run_with_the_condition(graph: Graph, x: Tensor) -> None:
    while_loop(lambda i: x > 3, lambda i: i, [0])
    assert inputs(graph.node("while/Greater/y")) == ["^while/Merge"]


def test_inner_loop_over_invariant_runs_with_the_body(graph: Graph, x: Tensor) -> None:
    def body(i: Tensor) -> Tensor:
        return i + while_loop(lambda j: j > i, lambda j: j - 1, [x])

    while_loop(lambda i: i < 3, body, [0])
    (inner,) = [n for n in enters(graph, constant=False) if n.name.startswith("while/while")]
    assert inputs(inner) == ["while/while/Enter", "^while/Identity"]


def test_loop_in_branch_enters_switched_values(graph: Graph, x: Tensor) -> None:
    cond(x > 2, lambda: count_to(x), lambda: x)
    (invariant,) = enters(graph, constant=True)
    switch = invariant.in_edges[0].src
    assert (switch.op, inputs(switch)) == ("Switch", ["x", "cond/pred_id"])


def test_conditional_in_loop_switches_entered_values(graph: Graph, x: Tensor) -> None:
    while_loop(lambda i: i < 3, lambda i: cond(i > 1, lambda: x, lambda: i + 1), [0])
    switch = graph.node("while/cond/Merge").in_edges[1].src
    assert switch.op == "Switch"
    assert [edge.src.op for edge in switch.in_edges] == ["Enter", "Identity"]


def test_references_enter_as_references(graph: Graph, x: Tensor) -> None:
    v = ops.state.variable_v2(shape=(), dtype="int32", name="v")
    while_loop(lambda i: i < 3, lambda i: ops.state.assign_add(v, i), [0])
    assert graph.node("while/AssignAdd").in_edges[0].src.op == "RefEnter"
    assert graph.node("while/NextIteration").op == "NextIteration"


def test_a_reference_is_read_before_the_loop(graph: Graph) -> None:
    v = ops.state.variable_v2(shape=(), dtype="int32", name="v")
    count = while_loop(lambda i: i < 3, lambda i: i + 1, [v])
    assert count.dtype is dtypes.int32
    assert inputs(graph.node("while/Enter")) == ["while/read"]


def test_the_default_graph_is_that_of_the_variables() -> None:
    graph = Graph()
    x = graph.placeholder("int32", ())
    assert while_loop(lambda i: ops.array.identity(True), lambda i: 3, [x]).graph is graph


def test_loop_is_built_on_the_device_and_in_the_scope(graph: Graph, x: Tensor) -> None:
    with graph.device("/gpu:0"), graph.name_scope("scope"):
        count_to(x)
    assert graph.node("scope/while/Less").device == "/device:GPU:0"
    assert graph.node("scope/while/Enter").device == "/device:GPU:0"
    assert graph.node("scope/while/Switch").attrs["_class"] == (b"loc:@scope/while/Merge",)


# Structures.


def test_structures_reach_the_functions_and_the_result(graph: Graph, x: Tensor) -> None:
    seen: list[Any] = []

    def body(pair: Pair, table: dict[str, Any], state: State) -> Any:
        seen.append((pair, table, state))
        return Pair(pair.right, pair.left), {"a": table["a"], "b": [x]}, State(1, (2,))

    start = [Pair(0, 1), {"b": [x], "a": 2.5}, State(0, (0,))]
    pair, table, state = while_loop(lambda pair, *_: pair.left < x, body, start)
    for structure in (*seen, (pair, table, state)):
        assert isinstance(structure[0], Pair)
        assert structure[1]["a"].dtype is dtypes.float32
        assert isinstance(structure[1]["b"], list)
        assert isinstance(structure[2], State)
        assert isinstance(structure[2].parts[0], Tensor)
    assert pair.left.op.op == "Exit"


@pytest.mark.parametrize("result", [list, tuple])
def test_result_has_the_structure_of_the_body(x: Tensor, result: type) -> None:
    found = while_loop(lambda i, j: i < x, lambda i, j: result((i + 1, j)), [0, 0])
    assert type(found) is result


@pytest.mark.parametrize("maximum", [None, 5])
def test_single_result_is_unpacked_by_default(x: Tensor, maximum: int | None) -> None:
    assert isinstance(count_to(x, maximum_iterations=maximum), Tensor)
    same = count_to(x, maximum_iterations=maximum, return_same_structure=True)
    assert isinstance(same, list)


@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: [v], lambda v: (v,)])
@pytest.mark.parametrize("maximum", [None, 5])
def test_one_variable_may_be_returned_alone(x: Tensor, wrap: Any, maximum: int | None) -> None:
    def body(table: dict[str, Tensor]) -> Any:
        return wrap({"a": table["a"] + 1})

    found = while_loop(lambda t: t["a"] < x, body, [{"a": 0}], maximum_iterations=maximum)
    assert isinstance(found["a"], Tensor)


def test_maximum_iterations_has_its_own_counter(graph: Graph, x: Tensor) -> None:
    most = graph.constant(3, "int64")
    found = while_loop(lambda i, j: i < x, lambda i, j: (j, i), (0, 1), maximum_iterations=most)
    assert len(found) == 2
    assert graph.node("while/iteration_counter").output_types == (dtypes.int64,)
    assert graph.node("while/LoopCond").in_edges[0].src.op == "LogicalAnd"


def test_python_values_take_the_type_of_the_variable(x: Tensor) -> None:
    i, a = while_loop(lambda i, a: i < x, lambda i, a: (i + 1, 2), [0, 1.5])
    assert (i.dtype, a.dtype) == (dtypes.int32, dtypes.float32)


# Control dependencies.


def test_a_loop_waits_as_a_whole(graph: Graph, x: Tensor) -> None:
    with graph.control_dependencies([control_flow.no_op(name="gate")]):
        while_loop(lambda i: i < x, lambda i: i + 1, [x])
    # What enters waits; what is inside waits for that, and a control edge cannot enter a loop.
    waiting = {node.name for node in graph if "^gate" in inputs(node)}
    assert waiting == {"while/Enter", "while/Less/Enter"}


@pytest.mark.parametrize("has_output", [True, False])
@pytest.mark.parametrize("is_in_branch", [True, False])
def test_a_body_waits_for_a_node_outside(
    graph: Graph, x: Tensor, has_output: bool, is_in_branch: bool
) -> None:
    gate = graph.constant(1, name="gate").op if has_output else control_flow.no_op(name="gate")

    def step() -> Tensor:
        with graph.control_dependencies([gate]):
            return graph.constant(1, name="late")

    def body(i: Tensor) -> Tensor:
        return cond(i > 2, step, lambda: i) if is_in_branch else step()

    while_loop(lambda i: i < x, body, [0])
    late = graph.node("while/cond/late" if is_in_branch else "while/late")
    (signal,) = [e.src for e in late.control_in_edges if e.src.name != "while/cond/switch_t"]
    assert signal.op == "Identity"
    assert "^while/Identity" in inputs(signal)
    token = signal.in_edges[0].src.in_edges[0].src
    assert token is gate if has_output else inputs(token) == ["^gate"]


def test_inner_loop_may_depend_on_outermost_nodes(graph: Graph, x: Tensor) -> None:
    gate = control_flow.no_op(name="gate")

    def body(i: Tensor) -> Tensor:
        with graph.control_dependencies([gate]):
            return while_loop(lambda j: j < x, lambda j: j + 1, [i])

    while_loop(lambda i: i < x, body, [0])
    entered = graph.node("while/while/Enter")
    assert [edge.src.op for edge in entered.control_in_edges] == ["Identity"]


def test_body_waits_for_its_own_nodes(graph: Graph, x: Tensor) -> None:
    def body(i: Tensor) -> Tensor:
        with graph.control_dependencies([i + x]):
            return ops.array.identity(i, name="late")

    while_loop(lambda i: i < x, body, [0])
    assert inputs(graph.node("while/late")) == ["while/Identity", "^while/add"]


def test_loop_in_branch_may_depend_on_branch_nodes(graph: Graph, x: Tensor) -> None:
    def branch() -> Tensor:
        with graph.control_dependencies([control_flow.no_op(name="gate")]):
            return while_loop(lambda i: i < 3, lambda i: i + 1, [x])

    cond(x > 2, branch, lambda: x)
    assert inputs(graph.node("cond/while/Enter")) == ["cond/while/Switch:1", "^cond/gate"]


# Errors.


def test_a_variable_keeps_its_type(x: Tensor) -> None:
    def body(i: Tensor, a: Any) -> Any:
        return i + 1, {"sum": ops.math.cast(i, DstT="float32")}

    with pytest.raises(InvalidArgumentError) as raised:
        while_loop(lambda i, a: i < x, body, [0, {"sum": 0}])
    message = str(raised.value)
    assert "loop_vars[1]['sum'] is int32 when it enters the loop 'while/while_context'" in message
    assert "the result of body[1]['sum'] is float32 ('while/Cast:0')" in message
    assert "graphmill.ops.math.cast" in message


def test_an_array_keeps_its_type(x: Tensor) -> None:
    with pytest.raises(InvalidArgumentError, match=r"body\[0\] is float64"):
        while_loop(lambda a: a < 3.0, lambda a: np.float64(2), [1.5])


@pytest.mark.parametrize(
    ("start", "result", "message"),
    [
        ([0, 0], (1,), "body returned 1 values, expected 2, one for each"),
        ([0], (1, 2), r"the result of body\[0\] is a tuple of 2, but loop_vars\[0\] is a single"),
        ([0, 0], 3, "body returned one value, 3, expected a list or tuple of 2 loop"),
        ([0, 0], {"a": 1}, "body returned one structure"),
        ([0, 0], None, "body returned None, expected the next values of 2"),
        (
            [0, [1]],
            (0, (1,)),
            r"the result of body\[1\] is a tuple of 1, but loop_vars\[1\] is a l",
        ),
        ([0, 1], (0, None), r"the result of body\[1\], for loop_vars\[1\]: None is not a tensor"),
        ([0, 1], (0, 1.5), r"the result of body\[1\], for loop_vars\[1\]: expected a value of int"),
    ],
)
def test_results_of_another_structure_are_refused(
    x: Tensor, start: Any, result: Any, message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        while_loop(lambda *v: v[0] < x, lambda *v: result, start)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"loop_vars": []}, "loop_vars has no tensors"),
        ({"loop_vars": [()]}, "loop_vars has no tensors"),
        ({"loop_vars": 3}, "loop_vars is int, expected a list or tuple"),
        ({"loop_vars": [0, None]}, r"loop_vars\[1\]: None is not a tensor"),
        ({"cond": True}, "cond is True, expected a function"),
        ({"body": 3}, "body is 3, expected a function"),
        ({"cond": lambda i: i}, "cond must return a scalar bool tensor: .*int32, expected bool"),
        ({"cond": lambda i: None}, "cond must return a scalar bool tensor"),
        ({"parallel_iterations": 0}, "parallel_iterations is 0, expected an int of at least 1"),
        ({"parallel_iterations": 1.5}, "parallel_iterations is 1.5"),
        ({"maximum_iterations": 2.5}, "maximum_iterations is float32, expected an integer"),
    ],
)
def test_wrong_arguments_are_refused(graph: Graph, arguments: dict[str, Any], message: str) -> None:
    all_arguments = {
        "cond": lambda i: i < 3,
        "body": lambda i: i + 1,
        "loop_vars": [0],
        **arguments,
    }
    with pytest.raises(InvalidArgumentError, match=message):
        while_loop(
            all_arguments.pop("cond"),
            all_arguments.pop("body"),
            all_arguments.pop("loop_vars"),
            **all_arguments,
        )


def test_values_need_a_default_graph() -> None:
    with pytest.raises(FailedPreconditionError, match="no default graph"):
        while_loop(lambda i: i < 3, lambda i: i + 1, [0])


def test_a_failing_body_leaves_the_context(graph: Graph, x: Tensor) -> None:
    def body(i: Tensor) -> Tensor:
        raise KeyError("mine")

    with pytest.raises(KeyError):
        while_loop(lambda i: i < x, body, [0])
    assert graph.control_flow.current is None
    assert count_to(x).name == "while_1/Exit:0"
