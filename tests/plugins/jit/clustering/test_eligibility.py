"""Nodes that cannot be in a cluster, with the reasons."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.plugins.jit.small_graphs import fetch_unread, graph

from graphmill_plugins.jit.clustering.eligibility import Eligibility

if TYPE_CHECKING:
    from graphmill.plugin.host import Host

NEGATE = "f(x: float32) -> float32: y = Neg(x); return y"
DYNAMIC = "g(x: float32) -> float32: y = Unique(x); return y"


@pytest.mark.parametrize(
    "text",
    [
        "y = Neg(x)",
        "y = Assert(p, [x])",
        "y = NoOp()",
        "y = VarHandleOp(dtype=float32, shape=[])",
        "y = EmptyTensorList(i, i, element_dtype=float32)",
        "y = PartitionedCall([x], Tout=[float32], f=f)",
    ],
)
def test_traceable_node_is_eligible(text: str, graphmill_host: Host) -> None:
    made = graph(text, functions=(NEGATE,), x="float32[2]", p="bool", i="int32")
    assert Eligibility(graphmill_host).why_not(made.node("y")) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("y = AsString(x)", "it has tensors of string"),
        ("y = Unique(x)", "depends on the number of distinct values"),
        ("y = Timestamp()", "needs concrete values|has effects: clock"),
        ("y = Switch(x, p)", "it controls execution with dead values"),
        ("y = FIFOQueueV2(component_types=[float32])", "it has tensors of resource"),
        (
            "y = PartitionedCall([x], Tout=[float32], f=g)",
            "y .Unique. in function g: the size of its result depends",
        ),
    ],
)
def test_why_others_are_not(text: str, reason: str, graphmill_host: Host) -> None:
    made = graph(text, functions=(DYNAMIC,), x="float32[2]", p="bool")
    told = Eligibility(graphmill_host).why_not(made.node("y"))
    assert told is not None
    assert re.search(reason, told), told


def test_assert_may_have_constant_messages(graphmill_host: Host) -> None:
    text = "t = Const(dtype=string, value='string: \"too long\"')"
    made = graph(text, "y = Assert(p, [t, x])", x="float32[2]", p="bool")
    assert Eligibility(graphmill_host).why_not(made.node("y")) is None


def test_an_assert_with_computed_texts_is_not_eligible(graphmill_host: Host) -> None:
    made = graph("y = Assert(p, [t])", t="string", p="bool")
    assert Eligibility(graphmill_host).why_not(made.node("y")) == "it has tensors of string"


def test_asserts_with_equal_attrs_are_decided_one_by_one(graphmill_host: Host) -> None:
    constant = "c = Const(dtype=string, value='string: \"too long\"')"
    made = graph(constant, "a = Assert(p, [c])", "b = Assert(p, [t])", t="string", p="bool")
    eligibility = Eligibility(graphmill_host)
    reasons = [eligibility.why_not(made.node(name)) for name in ("a", "b", "a")]
    assert reasons == [None, "it has tensors of string", None]


def test_nodes_that_a_lowering_may_refuse_are_decided_one_by_one(graphmill_host: Host) -> None:
    """They share attrs, but the lowering looks at the inputs."""
    constant = "c = Const(dtype=int32, value='int32: [0, 1]')"
    stitches = ("a = DynamicStitch([c], [x])", "b = DynamicStitch([i], [x])")
    made = graph(constant, *stitches, x="float32[2]", i="int32[2]")
    eligibility = Eligibility(graphmill_host)
    reasons = [eligibility.why_not(made.node(name)) for name in "aba"]
    assert [reason is None for reason in reasons] == [True, False, True]


def test_list_may_be_passed_on(graphmill_host: Host) -> None:
    made = graph("l = EmptyTensorList(i, i, element_dtype=float32)", "y = Identity(l)", i="int32")
    assert Eligibility(graphmill_host).why_not(made.node("y")) is None


def test_start_of_a_graph_is_not_clustered(graphmill_host: Host) -> None:
    made = graph("y = Neg(x)", x="float32[2]")
    fetch_unread(made)
    reason = Eligibility(graphmill_host).why_not(made.node("result_y_0"))
    assert reason == "it is an argument or result of the graph"
