"""`RunMetadata` of steps on several tasks: traces, costs and partition graphs, merged."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.distributed.master.conftest import Master, run
from tests.unit.distributed.master.test_cluster_session import there_and_back
from tests.unit.distributed.worker.conftest import cpu

from graphmill import errors, proto
from graphmill.distributed.master import step_metadata
from graphmill.distributed.worker.step_call import StepResult

TRACE = {"trace_level": proto.RunOptions.FULL_TRACE}
COSTS = {"graph_options": {"build_cost_model": 2, "build_cost_model_after": 1}}


def measured(session: Any, **options: Any) -> Any:
    metadata = proto.RunMetadata()
    run(session, ["y:0"], {"x:0": 1.0}, options=proto.RunOptions(**options), metadata=metadata)
    return metadata


def node(name: str, number: int, *inputs: int) -> Any:
    made = proto.CostGraphDef.Node(name=name, id=number, control_input=inputs)
    for preceding in inputs:
        made.input_info.add(preceding_node=preceding)
    return made


def test_costs_are_measured_in_every_nth_step(master: Master) -> None:
    session = master.session(there_and_back(), **COSTS)
    found = [measured(session) for _ in range(5)]
    assert [bool(metadata.cost_graph.node) for metadata in found] == [0, 0, 1, 0, 1]
    assert not any(metadata.step_stats.dev_stats for metadata in found)
    nodes = found[2].cost_graph.node
    assert {n.device for n in nodes} == {cpu(0), cpu(1)}
    assert [n.id for n in nodes] == list(range(len(nodes)))
    for n in nodes:
        for info in n.input_info:
            assert nodes[info.preceding_node].device == n.device
    (y,) = [n for n in nodes if n.name == "y"]
    assert nodes[y.input_info[0].preceding_node].name.startswith("doubled/_recv")


def test_costs_and_traces_are_collected_together(master: Master) -> None:
    session = master.session(there_and_back(), graph_options={"build_cost_model": 1})
    metadata = measured(session, **TRACE)
    assert metadata.cost_graph.node
    assert {stats.device for stats in metadata.step_stats.dev_stats} == {cpu(0), cpu(1)}


def test_partition_graphs_of_all_tasks_are_returned(master: Master) -> None:
    session = master.session(there_and_back())
    graphs = measured(session, output_partition_graphs=True).partition_graphs
    devices = [{node.device for node in graph.node} for graph in graphs]
    assert sorted(devices, key=sorted) == [{cpu(0)}, {cpu(1)}]


def test_receives_are_logged_for_the_traced_step_alone(master: Master) -> None:
    session = master.session(there_and_back())
    measured(session)
    assert not master.workers[1].requests("logging")
    measured(session, **TRACE)
    for worker in master.workers:
        first, last = worker.requests("logging")
        (call,) = worker.requests("run_graph")[1:]
        assert (first.enable_rpc_logging, last.disable_rpc_logging) == (True, True)
        assert list(last.fetch_step_id) == [call.step_id]


def test_a_failed_step_stops_the_logs(master: Master) -> None:
    session = master.session(there_and_back())
    measured(session)
    master.workers[1].lost_calls.add("run_graph")
    with pytest.raises(errors.UnavailableError):
        measured(session, **TRACE)
    assert [r.disable_rpc_logging for r in master.workers[0].requests("logging")] == [False, True]


def test_a_task_that_does_not_log_is_left_out(master: Master, monkeypatch: Any) -> None:
    monkeypatch.setattr(step_metadata, "LOG_SECONDS", 0.0)
    session = master.session(there_and_back())
    master.workers[1].silent.add("logging")
    devices = {stats.device for stats in measured(session, **TRACE).step_stats.dev_stats}
    assert devices == {cpu(0), cpu(1)}
    assert len(master.workers[1].requests("logging")) == 1


def test_stats_of_a_device_are_merged_and_costs_numbered_on() -> None:
    results = []
    for names in (("a", "b"), ("c", "d")):
        stats = proto.StepStats()
        stats.dev_stats.add(device="/cpu").node_stats.add(node_name=names[0])
        costs = proto.CostGraphDef(node=[node(names[0], 0), node(names[1], 1, 0)])
        results.append(StepResult(step_stats=stats, cost_graph=costs))
    metadata = proto.RunMetadata()
    step_metadata.fill_metadata(metadata, results)
    (device,) = metadata.step_stats.dev_stats
    assert [n.node_name for n in device.node_stats] == ["a", "c"]
    expected = [node("a", 0), node("b", 1, 0), node("c", 2), node("d", 3, 2)]
    assert list(metadata.cost_graph.node) == expected
