"""Steps that are driven node by node compute what ordinary steps do, and are recorded exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import graphmill
from graphmill import debug, proto
from graphmill.graph.formats.import_export import graph_to_graph_def
from graphmill.runtime.dead import DEAD
from graphmill.testing.differential.executors import reference_values
from graphmill.testing.generators.control_flow_graphs import structured_graph
from graphmill.testing.generators.control_flow_programs import random_program

if TYPE_CHECKING:
    from graphmill.debug import WaitingNode
    from graphmill.plugin.host import Host
    from graphmill.testing.generators.control_flow_graphs import StructuredGraph

pytestmark = pytest.mark.divided

CPUS = tuple(f"/device:CPU:{index}" for index in range(3))


def session_of(made: StructuredGraph, host: Host, devices: int = 1) -> graphmill.Session:
    config = proto.ConfigProto(device_count={"CPU": devices})
    graph_def = graph_to_graph_def(made.graph)
    return graphmill.Session(graph=graph_def, host=host, config=config)


def alive(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not DEAD}


def run_debugged(session: graphmill.Session, fetches: Any, feeds: Any) -> debug.Debugger:
    with debug.Debugger(session, fetches, feeds) as debugger:
        assert debugger.resume().reason == "end"
    return debugger


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_graphs_on_one_and_several_devices(first: int, graphmill_host: Host) -> None:
    for seed in range(first, first + 10):
        for devices in ((), CPUS):
            made = structured_graph(seed, graphmill_host.ops, devices=devices)
            expected = alive(reference_values(made, graphmill_host))
            with session_of(made, graphmill_host, len(devices) or 1) as session:
                debugger = run_debugged(session, list(expected), dict(made.feeds))
                assert debugger.results() == list(expected.values()), seed


def test_random_graphs_with_references_are_replayed(graphmill_host: Host) -> None:
    for seed in range(10):
        made = structured_graph(seed, graphmill_host.ops, references=True)
        expected = alive(reference_values(made, graphmill_host))
        if not expected:
            continue  # everything is on branches that are not taken
        with session_of(made, graphmill_host) as session:
            if made.start:
                session.run([], targets=[made.start])
            recording = run_debugged(session, list(expected), dict(made.feeds)).recording
            again = debug.replay(session, recording)
            assert again.error is None
            assert again.differences == []


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_with_effects(seed: int) -> None:
    program = random_program(seed, depth=3)
    graph = graphmill.Graph()
    built = program.build(graph)
    with graphmill.Session(graph=graph) as session:
        for x in (-1, 2):
            session.run(built.start)
            debugger = run_debugged(session, built.result, {built.x: x})
            result = int(debugger.results()), int(session.run(built.total))
            assert result == program.expected(x), program


def test_counters_of_recordings_are_those_of_executors(graphmill_host: Host) -> None:
    compared = 0
    for seed in range(8):
        made = structured_graph(seed, graphmill_host.ops)
        expected = alive(reference_values(made, graphmill_host))
        with (
            session_of(made, graphmill_host) as session,
            debug.Debugger(session, list(expected), dict(made.feeds)) as debugger,
        ):
            while debugger.step().reason == "step":
                compared += compare_counters(debugger)
    assert compared > 300


def compare_counters(debugger: debug.Debugger) -> int:
    """Compare all counters at a position; return how many."""
    live = {_key(node): node for node in debugger.waiting() if node.state == "pending"}
    count = 0
    for node in debugger.recording.waiting_at(debugger.position):
        if _key(node) in live and not _waits_for_frame(debugger, node):
            count += 1
            assert node.pending == live[_key(node)].pending, node
    return count


def _key(node: WaitingNode) -> tuple[str, str]:
    return node.name, node.iteration


def _waits_for_frame(debugger: debug.Debugger, node: WaitingNode) -> bool:
    """Return whether a node waits for an exit or a deferred value, which arrives later."""
    nodes = {n.name: n.role for graph in debugger.recording.graphs for n in graph.nodes}
    sources = [name.rpartition(":")[0] or name.removeprefix("^") for name in node.missing]
    return any(
        nodes.get(source.removeprefix("^")) in ("exit", "next iteration") for source in sources
    )
