"""The times of a program's operations are divided among its nodes."""

from __future__ import annotations

import pytest

pytest.importorskip("jax")

from graphmill_plugins.jit.programs.hlo_nodes import OperationNodes

pytestmark = pytest.mark.jax

TEXT = """\
HloModule jit_cluster_1, is_scheduled=true

%fused (p: f32[2]) -> f32[2] {
  %p = f32[2]{0} parameter(0), metadata={op_name="jit(f)/node:z/neg"}
  %neg.1 = f32[2]{0} negate(%p), metadata={op_name="jit(f)/node:a/neg"}
  ROOT %sin.1 = f32[2]{0} sine(%neg.1), metadata={op_name="jit(f)/node:b/sin"}
}

%body (t: (s32[], f32[2])) -> (s32[], f32[2]) {
  %t = (s32[], f32[2]{0}) parameter(0)
  %x = f32[2]{0} get-tuple-element(%t), index=1, metadata={op_name="jit(f)/node:loop/while"}
  %tanh.1 = f32[2]{0} tanh(%x), metadata={op_name="jit(f)/node:loop/while/body/node:step/tanh"}
  ROOT %tuple.1 = (s32[], f32[2]{0}) tuple(%i, %tanh.1)
}

%condition (t: (s32[], f32[2])) -> pred[] {
  ROOT %lt.1 = pred[] compare(%i, %n), metadata={op_name="jit(f)/node:loop/while/cond/node:less/lt"}
}

ENTRY %main (x: f32[2]) -> f32[2] {
  %fusion = f32[2]{0} fusion(%x), kind=kLoop, calls=%fused, metadata={op_name="jit(f)/node:b/sin"}
  %copy.1 = f32[2]{0} copy(%fusion)
  ROOT %while.1 = (s32[], f32[2]{0}) while(%t), condition=%condition, body=%body, \
metadata={op_name="jit(f)/node:loop/while"}
}
"""


@pytest.fixture
def nodes() -> OperationNodes:
    return OperationNodes(TEXT)


def test_the_program_has_a_name(nodes: OperationNodes) -> None:
    assert nodes.module == "jit_cluster_1"


def test_fused_nodes_have_equal_shares(nodes: OperationNodes) -> None:
    assert nodes.times({"fusion": 10.0}) == {("a",): (5.0, 2), ("b",): (5.0, 2)}


def test_a_loop_has_the_times_of_its_operations(nodes: OperationNodes) -> None:
    times = nodes.times({"while.1": 50.0, "tanh.1": 30.0, "lt.1": 4.0})
    assert times == {("loop", "step"): (30.0, 1), ("loop", "less"): (4.0, 1)}


def test_a_loop_in_one_operation_is_divided_among_its_nodes(nodes: OperationNodes) -> None:
    times = nodes.times({"while.1": 50.0})
    assert times == {("loop", "step"): (25.0, 2), ("loop", "less"): (25.0, 2)}


def test_operations_of_xla_belong_to_no_node(nodes: OperationNodes) -> None:
    assert nodes.times({"copy.1": 3.0, "unknown": 4.0}) == {}
