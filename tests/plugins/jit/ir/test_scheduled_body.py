"""Scheduled bodies have their nodes in the order of computation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.plugins.jit.small_graphs import body

from graphmill.errors import NotFoundError
from graphmill.lowering.policies.effects_policy import EffectsPolicy
from graphmill.ops.attrs.attr_types import FuncAttr
from graphmill_plugins.jit.ir.scheduled_body import ScheduledBodies, schedule_body

if TYPE_CHECKING:
    from graphmill.plugin.host import Host

NEGATE = "f(x: float32, unread: float32) -> float32: y = Neg(x); return y"
CALL = "c = PartitionedCall([a, x], Tout=[float32], f=f)"


def test_nodes_come_after_their_inputs() -> None:
    scheduled = schedule_body(body("a = Neg(x)", "b = Neg(a)", "c = AddV2(b, a)", x="float32"))
    assert [node.name for node in scheduled.nodes] == ["a", "b", "c"]
    assert [(node.name, output) for node, output in scheduled.results] == [("c", 0)]
    assert [node.name for node in scheduled.args if node is not None] == ["input_0"]


def test_unread_argument_has_no_node(graphmill_host: Host) -> None:
    made = body("a = Neg(x)", CALL, functions=(NEGATE,), x="float32")
    found = ScheduledBodies(made, graphmill_host, EffectsPolicy()).function(FuncAttr("f"))
    assert len(found.args) == 2
    assert all(not node.out_edges for node in found.args[1:] if node is not None)


def test_each_function_is_scheduled_once(graphmill_host: Host) -> None:
    made = body("a = Neg(x)", CALL, functions=(NEGATE,), x="float32")
    bodies = ScheduledBodies(made, graphmill_host, EffectsPolicy())
    assert bodies.function(FuncAttr("f")) is bodies.function(FuncAttr("f"))
    with pytest.raises(NotFoundError, match="none"):
        bodies.function(FuncAttr("none"))
