"""`calls_of`: declared calls, undeclared function attrs, and ops that are functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from graphmill import dtypes, proto
from graphmill.graph.builder import Graph
from graphmill.graph.functions.function_calls import BY_NAME, called_functions, calls_of
from graphmill.graph.functions.function_library import FunctionLibrary
from graphmill.ops.attrs.attr_types import FuncAttr
from graphmill.ops.definition.op_def import ArgDef, AttrDef, OpDef
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.ops.definition.op_traits import CallKind, FunctionCall, OpTraits

if TYPE_CHECKING:
    from graphmill.graph.node import Node

LISTS = {"Tin": [], "Tout": []}


def function(name: str) -> FuncAttr:
    return FuncAttr(name, {})


def make(op: str, *inputs: object, **attrs: object) -> Node:
    graph = Graph()
    constants = [graph.constant(value) for value in inputs]
    return graph.create_op(op, constants, attrs)


def test_branches_share_their_declaration() -> None:
    case = make("Case", 0, branches=[function("a"), function("b")], **LISTS)
    assert [(called.name, called.kind) for called in calls_of(case)] == [
        ("a", CallKind.BRANCH),
        ("b", CallKind.BRANCH),
    ]
    assert {called.call.first_input for called in calls_of(case)} == {1}


def test_loop_calls_condition_and_body() -> None:
    loop = make("While", T=[], cond=function("c"), body=function("b"))
    assert [(called.name, called.kind) for called in calls_of(loop)] == [
        ("c", CallKind.LOOP_CONDITION),
        ("b", CallKind.LOOP_BODY),
    ]


def test_undeclared_function_attr_is_deferred() -> None:
    dataset = make(
        "OneShotIterator",
        dataset_factory=function("f"),
        output_types=["float32"],
        output_shapes=[()],
    )
    assert [(called.name, called.kind) for called in calls_of(dataset)] == [
        ("f", CallKind.DEFERRED)
    ]


def test_op_without_function_attrs_calls_nothing() -> None:
    assert calls_of(make("NoOp")) == []


def test_function_op_calls_once_without_private_attrs() -> None:
    library = FunctionLibrary()
    message = proto.FunctionDef()
    message.signature.name = "double"
    library.add(message)
    op_def = OpDef("double", attrs=(AttrDef("n", "int"),))
    node = Graph().add_node("call", op_def, attrs={"n": 2, "_mark": b"x"})
    (called,) = calls_of(node, library)
    assert called.function == FuncAttr("double", {"n": 2})
    assert called.call is BY_NAME
    assert calls_of(node) == []


@pytest.mark.parametrize("first", [0, 1])
def test_foreign_op_calls_as_its_traits_declare(first: int) -> None:
    ops = OpRegistry()
    args = tuple(ArgDef(name, dtypes.float32) for name in "xy"[: first + 1])
    call = FunctionCall("g", CallKind.ONCE, first)
    ops.add(OpDef("Mine>Call", args, attrs=(AttrDef("g", "func"),)), traits=OpTraits(calls=(call,)))
    graph = Graph(ops)
    inputs = [graph.constant(1.0) for _ in args]
    node = graph.create_op("Mine>Call", inputs, {"g": function("f")})
    assert called_functions(node) == [function("f")]
    assert calls_of(node)[0].call is call
