"""Steps that are driven node by node give ordinary steps' results, and are recorded exactly."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

import graphmill
from graphmill import debug, dtypes, hookimpl, ops, proto
from graphmill.graph.formats.import_export import graph_to_graph_def
from graphmill.ops.definition.op_def import ArgDef, OpDef
from graphmill.runtime.dead import DEAD
from graphmill.runtime.steps.step_runner import StepRunner
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
def test_debugged_random_graphs_match_the_reference_evaluator(
    first: int, graphmill_host: Host
) -> None:
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
def test_debugged_random_programs_match_plain_python(seed: int) -> None:
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
    """Compare all counters at a position; return their number."""
    live = {_key(node): node for node in debugger.waiting() if node.state == "pending"}
    count = 0
    for node in debugger.recording.waiting_at(debugger.position):
        if _key(node) in live and not _waits_for_frame(debugger, node):
            count += 1
            assert node.pending == live[_key(node)].pending, node
    return count


class Interrupting:
    """A plugin whose op sends SIGINT to the process, once or several times."""

    def __init__(self, times: int) -> None:
        self.times = times

    @hookimpl
    def graphmill_register_ops(self, ops: Any) -> None:
        arguments = (ArgDef("x", dtypes.float32),), (ArgDef("y", dtypes.float32),)
        ops.add(OpDef("Mine>Interrupt", *arguments, is_stateful=True))

    @hookimpl
    def graphmill_register_kernels(self, kernels: Any) -> None:
        @graphmill.kernel("Mine>Interrupt", stateful=True)
        def interrupt(ctx: Any, x: Any) -> Any:
            for _ in range(self.times):
                signal.raise_signal(signal.SIGINT)
            return x

        kernels.add(interrupt)


def interrupting(times: int) -> graphmill.Session:
    host = graphmill.Host(plugins=[Interrupting(times)])
    graph = graphmill.Graph(host.ops)
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        (y,) = graph.outputs_of(graph.create_op("Mine>Interrupt", [x], name="y"))
        ops.math.neg(y, name="z")
    return graphmill.Session(graph=graph, host=host)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_stops_after_the_running_node() -> None:
    with (
        interrupting(1) as session,
        debug.Debugger(session, "z:0", {"x:0": 2.0}) as debugger,
    ):
        assert debugger.resume().reason == "interrupted"
        assert debugger.next_node() == "z"
        assert debugger.resume().reason == "end"
        assert debugger.results() == -2.0


@pytest.mark.usefixtures("interruptible")
def test_a_second_interrupt_ends_the_step() -> None:
    with (
        interrupting(2) as session,
        debug.Debugger(session, "z:0", {"x:0": 2.0}) as debugger,
    ):
        with pytest.raises(KeyboardInterrupt):
            debugger.resume()
        assert debugger.is_done
        assert debugger.resume().reason == "error"
        assert isinstance(debugger.error, graphmill.errors.CancelledError)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        queue = ops.data_flow.fifo_queue_v2(component_types=["float32"], name="queue")
        ops.data_flow.queue_enqueue_v2(queue, [graph.constant(1.0)], name="put")
        ops.data_flow.queue_dequeue_v2(queue, component_types=["float32"], name="take")
    get = StepRunner._get

    def interrupted(runner: StepRunner, timeout: float) -> Any:
        if timeout:
            signal.raise_signal(signal.SIGINT)
        return get(runner, min(timeout, 0.001))

    with (
        graphmill.Session(graph=graph) as session,
        debug.Debugger(session, "take:0") as debugger,
    ):
        with monkeypatch.context() as patch:
            patch.setattr(StepRunner, "_get", interrupted)
            stop = debugger.resume(wait=600)
        assert stop.reason == "interrupted"
        assert "'take' (QueueDequeueV2) waits" in stop.text
        session.run("put")
        assert debugger.resume().reason == "end"
        assert debugger.results() == 1.0


def _key(node: WaitingNode) -> tuple[str, str]:
    return node.name, node.iteration


def _waits_for_frame(debugger: debug.Debugger, node: WaitingNode) -> bool:
    """Return whether a node waits for an exit or a deferred value, which arrives later."""
    nodes = {n.name: n.role for graph in debugger.recording.graphs for n in graph.nodes}
    sources = [name.rpartition(":")[0] or name.removeprefix("^") for name in node.missing]
    return any(
        nodes.get(source.removeprefix("^")) in ("exit", "next iteration") for source in sources
    )
