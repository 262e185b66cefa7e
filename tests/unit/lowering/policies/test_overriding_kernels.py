"""Nodes whose kernel overrides that of their op lose the traits that say what they compute."""

from __future__ import annotations

from typing import Any

import pytest

import graphmill
from graphmill.lowering.passes import PassOptions
from graphmill.lowering.policies.overriding_kernels import withdraw_roles
from graphmill.ops.definition.op_traits import Arithmetic, Source
from graphmill.runtime.kernels.kernel import kernel
from graphmill.testing.fakes.third_party_plugin import ThirdPartyPlugin, float_op


def nodes_after(*kernels: Any, label: str = "", ops: Any = ()) -> dict[str, Any]:
    """Return the nodes of a small graph, by name, after overridden ones have lost their roles."""
    host = graphmill.Host(plugins=[ThirdPartyPlugin(ops, kernels)])
    graph = graphmill.Graph(ops=host.ops)
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        one = graph.constant(1.0, name="one")
        graph.create_op("AddV2", [x, one], attrs={"_kernel": label} if label else {}, name="sum")
        graph.create_op("Identity", [x], name="copy")
        for op in ops:
            graph.create_op(op.name, [x], name="mine")
    with graphmill.Session(graph=graph, host=host) as session:
        options = PassOptions(graphmill.ConfigProto(), session._impl.devices, host)
        withdraw_roles(graph, options)
    return {node.name: node for node in graph.nodes}


@kernel("Const", priority=10)
def constant(xp: Any, value: Any) -> Any:
    return value


@kernel("AddV2", label="mine", effects=["log"])
def labelled_sum(xp: Any, x: Any, y: Any) -> Any:
    return x


def identity(**declared: Any) -> Any:
    return kernel("Identity", priority=10, **declared)(lambda xp, input: input)  # noqa: A006


def test_constant_becomes_an_op_without_inputs() -> None:
    nodes = nodes_after(constant)
    assert nodes["one"].op == "Const"
    assert nodes["one"].op_def.traits.source is Source.NONE
    assert nodes["sum"].op_def.traits.arithmetic is Arithmetic.ADD


@pytest.mark.parametrize("label", ["", "mine"])
def test_label_selects_the_overridden_node(label: str) -> None:
    op_def = nodes_after(labelled_sum, label=label)["sum"].op_def
    is_overridden = label == "mine"
    assert (op_def.traits.arithmetic is Arithmetic.NONE) == is_overridden
    assert op_def.is_commutative != is_overridden
    assert (op_def.traits.effects or set()) == ({"log"} if is_overridden else set())
    assert op_def.traits.elementwise


@pytest.mark.parametrize("promises", [False, True])
def test_kernel_that_promises_to_forward_keeps_that_role(promises: bool) -> None:
    nodes = nodes_after(identity(forwards=promises))
    assert nodes["copy"].op_def.traits.forwards == promises


def test_ops_of_the_same_plugin_keep_their_roles() -> None:
    op = float_op("Mine>Act", traits=graphmill.spi.OpTraits(forwards=True))
    nodes = nodes_after(kernel("Mine>Act")(lambda xp, x: x), ops=[op])
    assert nodes["mine"].op_def is not None
    assert nodes["mine"].op_def.traits.forwards
