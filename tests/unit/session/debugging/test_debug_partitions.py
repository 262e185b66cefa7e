"""`SharedKernels`: a debugged step uses the session's stateful kernels, but its own calls."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.runtime.kernels.op_segment import StatefulKernels
from graphmill.session.debugging.debug_partitions import SharedKernels

FUNCTIONS: Any = SimpleNamespace(host=SimpleNamespace(ops=OpRegistry()))


def kernel(op: str) -> Any:
    return SimpleNamespace(op=op, functions=None)


@pytest.mark.parametrize("op", ["RandomUniform", "VarHandleOp", "OneShotIterator"])
def test_kernels_with_state_are_shared_both_ways(op: str) -> None:
    ordinary = StatefulKernels()
    debugged = SharedKernels(ordinary, FUNCTIONS)
    first = debugged.find_or_create("a", lambda: kernel(op))
    assert ordinary.find("a") is first
    assert first.functions is FUNCTIONS
    second = ordinary.find_or_create("b", lambda: kernel(op))
    assert debugged.find_or_create("b", lambda: kernel(op)) is second


@pytest.mark.parametrize("op", ["If", "While", "StatefulPartitionedCall"])
def test_kernels_that_call_functions_are_not_shared(op: str) -> None:
    ordinary = StatefulKernels()
    debugged = SharedKernels(ordinary, FUNCTIONS)
    first = debugged.find_or_create("a", lambda: kernel(op))
    assert ordinary.find("a") is None
    assert debugged.find_or_create("a", lambda: kernel(op)) is first
    second = ordinary.find_or_create("a", lambda: kernel(op))
    assert second is not first
    assert debugged.find_or_create("a", lambda: kernel(op)) is first
