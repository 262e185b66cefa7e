"""A node and the function that it calls must agree on element types."""

from __future__ import annotations

from typing import Any

import pytest

import graphmill
from graphmill import errors, proto
from graphmill.testing.proto_builders import const_def, graph_def, node_def

FLOAT, INT, STRING = 1, 3, 7


def function(name: str, result: int, *nodes: Any, ret: str, takes: int = FLOAT) -> Any:
    made = proto.FunctionDef()
    made.signature.name = name
    made.signature.input_arg.add(name="x", type=takes)
    made.signature.output_arg.add(name="y", type=result)
    made.node_def.extend(nodes)
    made.ret["y"] = ret
    return made


FUNCTIONS = {
    "square": function("square", FLOAT, node_def("s", "Square", "x", T="float32"), ret="s:y:0"),
    "cast": function(
        "cast", INT, node_def("s", "Cast", "x", SrcT="float32", DstT="int32"), ret="s:y:0"
    ),
    "less": function(
        "less",
        10,
        const_def("k", 100.0),
        node_def("s", "Less", "x", "k:output:0", T="float32"),
        ret="s:z:0",
    ),
}


def run(node: Any, jit: str, *functions: str, fetch: str = "call:0") -> Any:
    graph = graph_def(const_def("c", 2.0), node)
    graph.library.function.extend(FUNCTIONS[name] for name in functions)
    with graphmill.Session(graph=graph, config={"graphmill": {"jit": jit}}) as session:
        return session.run(fetch)


def node(op: str, *inputs: str, types: dict[str, list[int]], **functions: str) -> Any:
    made = proto.NodeDef(name="call", op=op, input=inputs)
    for name, values in types.items():
        made.attr[name].list.type.extend(values)
    for name, called in functions.items():
        made.attr[name].func.name = called
    return made


@pytest.mark.parametrize("jit", ["off", "eager"])
@pytest.mark.parametrize("op", ["PartitionedCall", "StatefulPartitionedCall"])
@pytest.mark.parametrize("declared", [[INT], [STRING], [FLOAT, FLOAT], []], ids=str)
def test_call_that_declares_other_results_is_refused(
    op: str, declared: list[int], jit: str
) -> None:
    call = node(op, "c", types={"Tin": [FLOAT], "Tout": declared}, f="square")
    with pytest.raises(errors.InvalidArgumentError, match=r"'square' returns \(float32\)") as error:
        run(call, jit, "square", fetch="call:0" if declared else "call")
    assert error.value.node == "call"


@pytest.mark.parametrize("jit", ["off", "eager"])
@pytest.mark.parametrize("op", ["If", "StatelessIf"])
def test_branch_that_returns_another_type_is_refused_though_it_is_not_taken(
    op: str, jit: str
) -> None:
    call = node(
        op,
        "c",
        "c",
        types={"Tin": [FLOAT], "Tout": [FLOAT]},
        then_branch="square",
        else_branch="cast",
    )
    call.attr["Tcond"].type = FLOAT
    with pytest.raises(errors.InvalidArgumentError, match=r"'cast' returns \(int32\), expected"):
        run(call, jit, "square", "cast")


@pytest.mark.parametrize("jit", ["off", "eager"])
@pytest.mark.parametrize("op", ["While", "StatelessWhile"])
def test_loop_that_changes_the_type_of_its_value_is_refused(op: str, jit: str) -> None:
    call = node(op, "c", types={"T": [FLOAT]}, cond="less", body="cast")
    with pytest.raises(errors.InvalidArgumentError, match=r"'cast' returns \(int32\), expected"):
        run(call, jit, "less", "cast")
    call = node(op, "c", types={"T": [FLOAT]}, cond="less", body="square")
    assert run(call, jit, "less", "square") == 256


def test_calls_inside_functions_are_checked() -> None:
    inner = node("PartitionedCall", "x", types={"Tin": [FLOAT], "Tout": [INT]}, f="square")
    outer = function("outer", INT, inner, ret="call:output:0")
    call = node("PartitionedCall", "c", types={"Tin": [FLOAT], "Tout": [INT]}, f="outer")
    graph = graph_def(const_def("c", 2.0), call)
    graph.library.function.extend([FUNCTIONS["square"], outer])
    with (
        graphmill.Session(graph=graph) as session,
        pytest.raises(errors.InvalidArgumentError, match=r"'square' returns \(float32\)"),
    ):
        session.run("call:0")


@pytest.mark.parametrize("op", ["PartitionedCall", "StatefulPartitionedCall"])
def test_polymorphic_function_without_its_attr_is_refused(op: str) -> None:
    poly = proto.FunctionDef()
    poly.signature.name = "poly"
    poly.signature.attr.add(name="T", type="type")
    poly.signature.input_arg.add(name="x", type_attr="T")
    poly.signature.output_arg.add(name="y", type_attr="T")
    square = poly.node_def.add(name="s", op="Square", input=["x"])
    square.attr["T"].placeholder = "T"
    poly.ret["y"] = "s:y:0"
    call = node(op, "c", types={"Tin": [FLOAT], "Tout": [FLOAT]}, f="poly")
    graph = graph_def(const_def("c", 2.0), call)
    graph.library.function.append(poly)
    with (
        graphmill.Session(graph=graph) as session,
        pytest.raises(errors.InvalidArgumentError, match="attr 'T' is missing"),
    ):
        session.run("call:0")
