"""Every executor answers random graphs of control flow as the naive evaluator does (E3-E7, P3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings

from graphmill.ops.op_registry import OpRegistry
from graphmill.plugin.markers import hookimpl
from graphmill.runtime.dead import DEAD
from graphmill.testing.executor_check import find_difference, reference_values
from graphmill.testing.structured_graphs import (
    StructuredGraph,
    structured_graph,
    structured_graphs,
)
from graphmill_plugins.default_executor.seeded import SeededExecutorFactory

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.plugin.host import Host

EXECUTORS = ("DEFAULT", "INLINE", "SEEDED")
SEEDS = range(0, 120, 20)
CPUS = tuple(f"/device:CPU:{index}" for index in range(3))


class Seeded:
    @hookimpl
    def graphmill_register_executors(self, executors: Any) -> None:
        executors.add("SEEDED", SeededExecutorFactory(0))


@pytest.fixture
def host(make_host: Callable[..., Host]) -> Host:
    return make_host(Seeded())


@pytest.mark.parametrize("executor_type", EXECUTORS)
@pytest.mark.parametrize("first", SEEDS)
def test_e7_random_graphs_of_a_seed(first: int, executor_type: str, host: Host) -> None:
    for seed in range(first, first + 20):
        made = structured_graph(seed, host.ops)
        assert not find_difference(made, reference_values(made, host), host, executor_type)


@pytest.mark.parametrize("executor_type", EXECUTORS)
def test_p3_random_graphs_across_devices(executor_type: str, host: Host) -> None:
    for seed in range(1000, 1040):
        made = structured_graph(seed, host.ops, devices=CPUS)
        wanted = reference_values(made, host)
        assert not find_difference(made, wanted, host, executor_type, len(CPUS))


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(made=structured_graphs(OpRegistry()))
def test_e7_random_graphs(made: StructuredGraph, host: Host) -> None:
    assert not find_difference(made, reference_values(made, host), host, "SEEDED")


def test_the_graphs_have_what_they_promise(host: Host) -> None:
    """Dead fetches, loops in loops, dead regions, `ControlTrigger`s, one iteration at a time."""
    ops: set[str] = set()
    parallel: set[int] = set()
    dead = 0
    for seed in range(60):
        made = structured_graph(seed, host.ops)
        ops.update(node.op for node in made.graph)
        parallel.update(n.attrs["parallel_iterations"] for n in made.graph if n.op == "Enter")
        dead += sum(value is DEAD for value in reference_values(made, host).values())
    assert ops >= {"Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond"}
    assert "ControlTrigger" in ops
    assert parallel == {1, 2, 3, 10}
    assert dead > 5


def test_a_difference_is_told(host: Host) -> None:
    made = structured_graph(0, host.ops)
    name, *_ = made.fetches
    found = find_difference(made, {name: 12345}, host, "INLINE")
    assert found.startswith("structured_graph(0, depth=3) in INLINE on 1 CPU: ")
    assert "not 12345" in found
    assert "is dead, but" in find_difference(made, {name: DEAD}, host, "INLINE")
