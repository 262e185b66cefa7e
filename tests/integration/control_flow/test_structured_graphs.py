"""Every executor computes the reference evaluator's results for control flow graphs (E3-E7, P3)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings

import graphmill
from graphmill import proto
from graphmill.graph.formats.import_export import graph_to_graph_def
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.plugin.markers import hookimpl
from graphmill.runtime.dead import DEAD
from graphmill.testing.differential.executors import find_difference, reference_values
from graphmill.testing.fakes.chaos_plugin import ChaosPlugin
from graphmill.testing.generators.control_flow_graphs import (
    StructuredGraph,
    structured_graph,
    structured_graphs,
)
from graphmill.testing.timeouts import no_leaked_threads
from graphmill_plugins.default_executor import executor_state
from graphmill_plugins.default_executor.seeded_executor import SeededExecutorFactory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from graphmill.plugin.host import Host

pytestmark = pytest.mark.divided

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
def test_e7_seeded_graphs_match_the_reference_evaluator(
    first: int, executor_type: str, host: Host
) -> None:
    for seed in range(first, first + 20):
        made = structured_graph(seed, host.ops)
        assert not find_difference(made, reference_values(made, host), host, executor_type)


@pytest.mark.parametrize("executor_type", EXECUTORS)
def test_e7_references_to_a_variable_go_through_loops_and_branches(
    executor_type: str, host: Host
) -> None:
    ops: set[str] = set()
    for seed in range(40):
        made = structured_graph(seed, host.ops, references=True)
        ops.update(node.op for node in made.graph)
        assert not find_difference(made, reference_values(made, host), host, executor_type)
    assert ops >= {"RefSwitch", "RefMerge", "RefEnter", "RefExit", "RefNextIteration"}


@pytest.mark.parametrize("executor_type", EXECUTORS)
def test_p3_graphs_across_devices_match_the_reference_evaluator(
    executor_type: str, host: Host
) -> None:
    for seed in range(1000, 1040):
        made = structured_graph(seed, host.ops, devices=CPUS)
        expected = reference_values(made, host)
        assert not find_difference(made, expected, host, executor_type, len(CPUS))


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(made=structured_graphs(OpRegistry()))
def test_e7_drawn_graphs_match_the_reference_evaluator(made: StructuredGraph, host: Host) -> None:
    assert not find_difference(made, reference_values(made, host), host, "SEEDED")


def test_generated_graphs_have_the_promised_features(host: Host) -> None:
    """Generated graphs have dead fetches and regions, nested loops, `ControlTrigger`s."""
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


def test_difference_is_reported(host: Host) -> None:
    made = structured_graph(0, host.ops)
    name, *_ = made.fetches
    found = find_difference(made, {name: 12345}, host, "INLINE")
    assert found.startswith("structured_graph(0, depth=3, references=False) in INLINE on 1 CPU")
    assert "not 12345" in found
    assert "is dead, but" in find_difference(made, {name: DEAD}, host, "INLINE")


# ------------------------------------------------------------------------------- many orders, E5


@pytest.mark.parametrize("seed", range(10))
def test_e5_many_random_orders_give_equal_results(seed: int, host: Host) -> None:
    """Results do not depend on the order: a hundred orders of each of ten graphs, with checks.

    More of them: `tools/verify_executors.py --orders`.
    """
    made = structured_graph(seed, host.ops)
    expected = alive(reference_values(made, host))
    with open_session(made, host, "SEEDED") as session:
        call = session.make_callable(list(expected), list(made.feeds))
        for _ in range(100):
            assert call(*made.feeds.values()) == list(expected.values())


@pytest.fixture
def chaos_host(make_host: Callable[..., Host], monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """Yield a host whose kernels end in other threads and use the pool whenever possible."""
    monkeypatch.setattr(executor_state, "WORTH_A_THREAD_NS", 0)
    plugin = ChaosPlugin()
    yield make_host(plugin, Seeded())
    plugin.close()


@pytest.mark.parametrize("executor_type", EXECUTORS)
def test_e5_e6_executors_agree_with_kernels_finishing_in_other_threads(
    executor_type: str, chaos_host: Host
) -> None:
    host = chaos_host
    for seed in range(30):
        for devices in ((), CPUS):
            made = structured_graph(seed, host.ops, devices=devices)
            expected = reference_values(made, graphmill.default_host())
            assert not find_difference(made, expected, host, executor_type, len(CPUS))


def test_e5_threads_run_one_session_at_once(chaos_host: Host) -> None:
    """Six threads run three sessions at once, each with kernels in other threads."""
    host = chaos_host
    faults: list[str] = []

    def work(session: graphmill.Session, made: StructuredGraph, expected: dict[str, Any]) -> None:
        for _ in range(40):
            found = session.run(list(expected), made.feeds)
            if found != list(expected.values()):
                faults.append(f"{made.name}: {found}, not {expected}")

    threads, sessions = [], []
    with no_leaked_threads(but=("chaos",)):
        for seed in (3, 5, 8):
            made = structured_graph(seed, host.ops, devices=CPUS[:2])
            reference = alive(reference_values(made, graphmill.default_host()))
            sessions.append(open_session(made, host, "DEFAULT"))
            threads += [
                threading.Thread(target=work, args=(sessions[-1], made, reference))
                for _ in range(2)
            ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for session in sessions:
            session.close()
    assert not faults


def alive(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not DEAD}


def open_session(made: StructuredGraph, host: Host, executor_type: str) -> graphmill.Session:
    config = proto.ConfigProto(device_count={"CPU": len(CPUS)})
    config.experimental.executor_type = executor_type
    config.graph_options.optimizer_options.global_jit_level = -1  # the executor itself
    return graphmill.Session(graph=graph_to_graph_def(made.graph), config=config, host=host)
