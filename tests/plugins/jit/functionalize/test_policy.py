"""Which ops may wait for others without an edge from them (E3)."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, cast

import pytest

import graphmill
from graphmill_plugins.jit.functionalize.policy import _WAITING, may_wait

OPS = sorted(graphmill.default_host().ops.names())


def waits(op: str) -> bool:
    return may_wait(cast("Any", SimpleNamespace(op=op)))


def test_the_short_cut_leaves_no_op_out() -> None:
    assert [op for op in OPS if waits(op)] == [op for op in OPS if re.fullmatch(_WAITING, op)]


@pytest.mark.parametrize("op", ["QueueDequeueV2", "_Recv", "BarrierTakeMany", "Stage", "PyFunc"])
def test_ops_that_wait(op: str) -> None:
    assert waits(op)


@pytest.mark.parametrize("op", ["MatMul", "QueueSizeV2", "Placeholder", "StringLower"])
def test_ops_that_do_not(op: str) -> None:
    assert not waits(op)
