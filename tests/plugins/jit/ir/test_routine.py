"""A body in the order in which it is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.plugins.jit.small_graphs import body

from graphmill.errors import NotFoundError
from graphmill.lowering.effects_policy import EffectsPolicy
from graphmill.ops.attr_types import FuncAttr
from graphmill_plugins.jit.ir.routine import Routines, routine_of

if TYPE_CHECKING:
    from graphmill.plugin.host import Host

NEGATE = "f(x: float32, unread: float32) -> float32: y = Neg(x); return y"
CALL = "c = PartitionedCall([a, x], Tout=[float32], f=f)"


def test_nodes_come_after_their_inputs() -> None:
    routine = routine_of(body("a = Neg(x)", "b = Neg(a)", "c = AddV2(b, a)", x="float32"))
    assert [node.name for node in routine.nodes] == ["a", "b", "c"]
    assert [(node.name, output) for node, output in routine.results] == [("c", 0)]
    assert [node.name for node in routine.args if node is not None] == ["input_0"]


def test_an_argument_that_nothing_reads_has_no_node(graphmill_host: Host) -> None:
    made = body("a = Neg(x)", CALL, functions=(NEGATE,), x="float32")
    found = Routines(made, graphmill_host, EffectsPolicy()).function(FuncAttr("f"))
    assert len(found.args) == 2
    assert all(not node.out_edges for node in found.args[1:] if node is not None)


def test_each_function_has_one_routine(graphmill_host: Host) -> None:
    made = body("a = Neg(x)", CALL, functions=(NEGATE,), x="float32")
    routines = Routines(made, graphmill_host, EffectsPolicy())
    assert routines.function(FuncAttr("f")) is routines.function(FuncAttr("f"))
    with pytest.raises(NotFoundError, match="none"):
        routines.function(FuncAttr("none"))
