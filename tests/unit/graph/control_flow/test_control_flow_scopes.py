"""Tensors of a loop or branch are used only inside it; its outputs elsewhere (clause G4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from graphmill import ops, proto
from graphmill.errors import InvalidArgumentError
from graphmill.graph.builder import Graph, Tensor
from graphmill.graph.control_flow.cond import cond
from graphmill.graph.control_flow.while_loop import while_loop
from graphmill.graph.dependencies import group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def graph() -> Iterator[Graph]:
    made = Graph()
    with made.as_default():
        yield made


@pytest.fixture
def x(graph: Graph) -> Tensor:
    return graph.placeholder("int32", (), "x")


def of_a_loop(x: Tensor) -> Tensor:
    kept: list[Tensor] = []

    def body(i: Tensor) -> Tensor:
        kept.append(ops.math.add_v2(i, x, name="inner"))
        return i + 1

    while_loop(lambda i: i < x, body, [0])
    return kept[0]


def of_a_branch(x: Tensor) -> Tensor:
    kept: list[Tensor] = []

    def branch() -> Tensor:
        kept.append(ops.math.add_v2(x, x, name="inner"))
        return kept[0]

    cond(x > 3, branch, lambda: x)
    return kept[0]


LOOP = "'while/inner:0' was created in the loop 'while/while_context' and cannot be used by "
BRANCH = "'cond/inner:0' was created in the true branch 'cond/cond_text' and cannot be used by "
each_kind = pytest.mark.parametrize(
    ("make", "where"), [(of_a_loop, LOOP), (of_a_branch, BRANCH)], ids=["loop", "branch"]
)


def error_of(use: Callable[[], Any]) -> str:
    with pytest.raises(InvalidArgumentError) as raised:
        use()
    return str(raised.value)


@each_kind
def test_use_outside_is_refused(x: Tensor, make: Callable[[Tensor], Tensor], where: str) -> None:
    inner = make(x)
    message = error_of(lambda: ops.math.neg(inner, name="y"))
    assert message.startswith(
        where + "node 'y' (op Neg), which is outside of all loops and branches"
    )
    assert "return it from the function that creates it" in message


@each_kind
def test_use_in_another_loop_is_refused(
    x: Tensor, make: Callable[[Tensor], Tensor], where: str
) -> None:
    inner = make(x)

    def body(i: Tensor) -> Tensor:
        return ops.math.neg(inner, name="y")

    message = error_of(lambda: while_loop(lambda i: i < x, body, [0], name="other"))
    assert message.startswith(
        where + "node 'other/y' (op Neg), which is in the loop 'other/while_context'"
    )


@each_kind
def test_use_in_another_branch_is_refused(
    x: Tensor, make: Callable[[Tensor], Tensor], where: str
) -> None:
    inner = make(x)
    message = error_of(lambda: cond(x > 2, lambda: x, lambda: inner, name="other"))
    assert message.startswith(
        where + "false_fn(), which is in the false branch 'other/cond_text_1'"
    )


@each_kind
def test_use_as_loop_variable_is_refused(
    x: Tensor, make: Callable[[Tensor], Tensor], where: str
) -> None:
    inner = make(x)
    message = error_of(lambda: while_loop(lambda i: i < x, lambda i: i + 1, [inner]))
    assert message.startswith(where + "loop_vars[0], which is outside of all")


@each_kind
def test_use_as_control_input_is_refused(
    graph: Graph, x: Tensor, make: Callable[[Tensor], Tensor], where: str
) -> None:
    inner = make(x)
    message = error_of(lambda: group(inner, name="late"))
    assert message.startswith(where.replace(":0'", "'") + "node 'late' (op NoOp)")


@each_kind
def test_inner_tensors_cannot_be_results_of_a_body(
    x: Tensor, make: Callable[[Tensor], Tensor], where: str
) -> None:
    inner = make(x)
    message = error_of(lambda: while_loop(lambda i: i < x, lambda i: inner, [0], name="other"))
    assert message.startswith(where + "node 'other/NextIteration'")


def test_tensors_of_a_branch_cannot_be_used_in_the_other(x: Tensor) -> None:
    kept: list[Tensor] = []

    def branch() -> Tensor:
        kept.append(x + 1)
        return kept[0]

    message = error_of(lambda: cond(x > 2, branch, lambda: kept[0] + 1))
    assert "in the true branch 'cond/cond_text'" in message
    assert "which is in the false branch 'cond/cond_text_1'" in message


def test_tensors_of_an_inner_loop_cannot_be_used_in_the_outer(x: Tensor) -> None:
    def body(i: Tensor) -> Tensor:
        return of_a_loop(x)

    message = error_of(lambda: while_loop(lambda i: i < x, body, [0], name="outer"))
    assert "in the loop 'outer/while/while_context'" in message
    assert "in the loop 'outer/while_context'" in message


def test_a_node_that_left_its_loop_cannot_use_it(graph: Graph, x: Tensor) -> None:
    def body(i: Tensor) -> Tensor:
        with graph.control_dependencies(None):
            return ops.math.neg(i, name="y")

    message = error_of(lambda: while_loop(lambda i: i < x, body, [0]))
    assert "node 'while/y' (op Neg), which is outside of all" in message


def test_a_refused_node_is_not_added(graph: Graph, x: Tensor) -> None:
    inner = of_a_loop(x)
    count = len(graph)
    error_of(lambda: ops.math.neg(inner))
    assert len(graph) == count


def test_control_flow_results_can_be_used_everywhere(x: Tensor) -> None:
    last = while_loop(lambda i: i < x, lambda i: i + 1, [0])
    chosen = cond(last > 2, lambda: last + 1, lambda: x)
    assert while_loop(lambda i: i < chosen, lambda i: i + last, [chosen]).op.op == "Exit"


# Calls of functions: when one is inlined, its constants have nothing else that tells when to run.


@pytest.fixture
def call(graph: Graph) -> Callable[[Tensor], Tensor]:
    function = proto.FunctionDef()
    function.signature.name = "Twice"
    function.signature.input_arg.add(name="x", type=proto.DataType.Value("DT_INT32"))
    function.signature.output_arg.add(name="y", type=proto.DataType.Value("DT_INT32"))
    node = function.node_def.add(name="sum", op="AddV2", input=["x", "x"])
    node.attr["T"].type = proto.DataType.Value("DT_INT32")
    function.ret["y"] = "sum:z:0"
    graph.library.add(function)
    return lambda tensor: Tensor(graph.create_op("Twice", [tensor], name="call"))


def waits(graph: Graph, name: str) -> list[str]:
    return [edge.src.name for edge in graph.node(name).control_in_edges]


def test_a_call_waits_for_its_branch(
    graph: Graph, x: Tensor, call: Callable[[Tensor], Tensor]
) -> None:
    cond(x > 2, lambda: call(x), lambda: x)
    assert waits(graph, "cond/call") == ["cond/switch_t"]


def test_call_waits_for_control_dependencies(
    graph: Graph, x: Tensor, call: Callable[[Tensor], Tensor]
) -> None:
    while_loop(lambda i: i < x, lambda i: call(i), [0])
    assert waits(graph, "while/call") == ["while/Identity"]
