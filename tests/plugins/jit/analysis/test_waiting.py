"""Kernels and function bodies determine which nodes may block on others without an edge."""

from __future__ import annotations

from typing import Any

import pytest
from tests.plugins.jit.small_graphs import graph

import graphmill
from graphmill.plugin.host import Host
from graphmill.plugin.markers import hookimpl
from graphmill.runtime.kernels.kernel import kernel
from graphmill_plugins.jit.analysis.waiting import WaitingNodes
from graphmill_plugins.jit.ir.lowering_choices import LoweringChoices

DEQUEUE = "d = QueueDequeueV2(q, component_types=[float32])"
NEGATES = "g(x: float32) -> float32: y = Neg(x); return y"


def waits(made: Any, name: str, host: Host | None = None) -> bool:
    host = host or graphmill.default_host()
    return WaitingNodes(LoweringChoices(host)).may_wait(made.node(name))


def test_asynchronous_kernels_wait() -> None:
    made = graph("q = FIFOQueueV2(component_types=[float32])", DEQUEUE, "s = QueueSizeV2(q)")
    assert waits(made, "d")
    assert not waits(made, "s")
    assert not waits(made, "q")


def test_call_waits_if_its_body_does() -> None:
    made = graph("y = PartitionedCall([x], Tout=[float32], f=g)", functions=(NEGATES,), x="float32")
    assert not waits(made, "y")
    made = graph(
        "q = FIFOQueueV2(component_types=[float32])",
        "y = PartitionedCall([q], Tout=[float32], f=f)",
        functions=(f"f(q: resource) -> float32: {DEQUEUE}; return d",),
    )
    assert waits(made, "y")


@pytest.mark.parametrize("declared", [True, False])
def test_plugin_kernel_declares_whether_it_waits(declared: bool) -> None:
    @kernel("Neg", priority=10, stateful=True, waits=declared)
    def mine(ctx: Any, x: Any) -> Any:
        return -x

    class Mine:
        @staticmethod
        @hookimpl
        def graphmill_register_kernels(kernels: Any) -> None:
            kernels.add(mine)

    made = graph("y = Neg(x)", x="float32")
    assert waits(made, "y", Host(plugins=[Mine])) is declared
