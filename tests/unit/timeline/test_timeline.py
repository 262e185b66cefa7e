"""Timelines: slices that nest, arrows from producers, memory, several steps."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import ops
from graphmill.errors import InvalidArgumentError
from graphmill.proto.step_stats_pb2 import StepStats
from graphmill.timeline import Timeline, node_runs

if TYPE_CHECKING:
    from pathlib import Path

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


def stats(*nodes: tuple[str, int, int], thread: int = 0, num_bytes: int = 0) -> StepStats:
    """Return the statistics of nodes, each with its label, start and end in nanoseconds."""
    message = StepStats()
    device = message.dev_stats.add(device=CPU)
    for label, start, end in nodes:
        node = device.node_stats.add(
            node_name=label.partition(" = ")[0],
            timeline_label=label,
            thread_id=thread,
            scheduled_nanos=start,
            all_start_nanos=start,
            all_end_rel_nanos=end - start,
        )
        if num_bytes:
            described = node.output.add().tensor_description
            described.dtype = 1
            described.allocation_description.requested_bytes = num_bytes
    return message


def events(timeline: Timeline, phase: str, **options: bool) -> list[dict[str, Any]]:
    trace = json.loads(timeline.generate_chrome_trace_format(**options))
    return [event for event in trace["traceEvents"] if event["ph"] == phase]


def node_events(timeline: Timeline) -> dict[str, dict[str, Any]]:
    nodes = [event for event in events(timeline, "X") if event["cat"] == "node"]
    return {event["args"]["name"]: event for event in nodes}


def test_nodes_are_slices_with_times_in_microseconds() -> None:
    timeline = Timeline(stats(("a = Const()", 1000, 1500), ("b = Neg(a)", 2000, 5000)))
    found = node_events(timeline)
    assert (found["a"]["ts"], found["a"]["dur"]) == (0.0, 0.5)
    assert (found["b"]["ts"], found["b"]["dur"], found["b"]["name"]) == (1.0, 3.0, "Neg")
    assert found["b"]["args"]["inputs"] == ["a"]


def test_arrows_lead_to_consumers_from_the_last_run_before() -> None:
    timeline = Timeline(
        stats(
            ("a = Add(a:0, c)", 0, 10),
            ("a = Add(a:0, c)", 20, 30),
            ("b = Neg(a, ^c)", 40, 50),
            ("late = Neg(never)", 60, 70),
        )
    )
    starts = {event["id"]: event["ts"] for event in events(timeline, "s")}
    ends = {event["id"]: event["ts"] for event in events(timeline, "f")}
    arrows = sorted((starts[number], ends[number]) for number in starts)
    assert arrows == [(0.009, 0.02), (0.029, 0.04)]
    assert events(timeline, "s", show_dataflow=False) == []


def test_overlapping_slices_get_their_own_rows() -> None:
    timeline = Timeline(
        stats(("wait = Dequeue()", 0, 100), ("in = Neg()", 10, 20), ("over = Neg()", 90, 150))
    )
    found = node_events(timeline)
    assert found["in"]["tid"] == found["wait"]["tid"]  # it lies inside
    assert found["over"]["tid"] != found["wait"]["tid"]
    names = [event["args"]["name"] for event in events(timeline, "M")]
    assert names == ["steps", CPU, "thread 0", "thread 0 (2)"]


def test_memory_is_held_until_the_last_consumer_ends() -> None:
    timeline = Timeline(stats(("a = X()", 0, 10), ("b = Neg(a)", 10, 30), num_bytes=8))
    counters = [(event["ts"], event["args"]["alive"]) for event in events(timeline, "C")]
    assert counters == [(0.01, 8), (0.03, 16), (0.03, 8), (0.03, 0)]


def test_a_note_of_a_label_is_an_argument() -> None:
    timeline = Timeline(stats(("a = Neg(b) (estimate: in cluster/0, compiled)", 0, 10)))
    assert node_events(timeline)["a"]["args"]["note"] == "estimate: in cluster/0, compiled"


def test_steps_follow_each_other_under_their_names() -> None:
    timeline = Timeline()
    timeline.add_step(stats(("a = X()", 1000, 2000)))
    timeline.add_step(stats(("a = X()", 5000, 7000)), "the second")
    found = [event for event in events(timeline, "X") if event["cat"] == "step"]
    assert [(e["name"], e["ts"], e["dur"]) for e in found] == [
        ("step 0", 0.0, 1.0),
        ("the second", 4.0, 2.0),
    ]


def test_a_step_that_was_not_traced_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="FULL_TRACE"):
        Timeline().add_step(graphmill.RunMetadata())


@pytest.fixture
def graph() -> graphmill.Graph:
    made = graphmill.Graph()
    with made.as_default():
        x = made.placeholder("float32", (4, 4), name="x")
        ops.math.neg(x @ x, name="y")
    return made


def test_something_else_than_a_step_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"expected a StepTrace, .* got int"):
        Timeline().add_step(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["off", "eager"])
def test_the_trace_of_a_session_shows_its_nodes(
    graph: graphmill.Graph, mode: str, tmp_path: Path
) -> None:
    timeline = Timeline()
    config = {"graphmill": {"jit": mode, "jit_min_cluster_size": 1}}
    with graphmill.Session(graph=graph, config=config) as session:
        for _ in range(2):
            metadata = graphmill.RunMetadata()
            session.run(
                "y:0",
                {"x:0": np.eye(4, dtype=np.float32)},
                options={"trace_level": "FULL_TRACE"},
                run_metadata=metadata,
            )
            timeline.add_step(metadata)
    timeline.save(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text("utf-8"))["traceEvents"]
    nodes = [e for e in trace if e["ph"] == "X" and e["cat"] == "node"]
    shown = [e for e in nodes if e["args"]["name"] == "y"]
    assert len(shown) == 2
    assert any("float32[4, 4]" in e["args"]["outputs"] for e in nodes)
    clusters = [e for e in nodes if e["name"] == "_Cluster"]
    if mode == "eager":  # its nodes lie inside
        assert all(
            c["ts"] <= y["ts"] and y["ts"] + y["dur"] <= c["ts"] + c["dur"] + 1e-3
            for c, y in zip(clusters, shown, strict=True)
        )
    else:
        assert not clusters


def test_a_loop_that_is_interpreted_shows_its_iterations() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        start = graph.placeholder("int32", [], name="start")
        loop = graphmill.while_loop(lambda i: i < 3, lambda i: [i + 1], [start], name="loop")
        ops.array.identity(loop, name="y")
    metadata = graphmill.RunMetadata()
    config = {"graphmill": {"jit": "off"}}
    with graphmill.Session(graph=graph, config=config) as session:
        options = {"trace_level": "FULL_TRACE"}
        session.run("y:0", {"start:0": 0}, options=options, run_metadata=metadata)
    shown = [e for e in events(Timeline(metadata.step_stats), "X") if e["cat"] == "loop"]
    assert [event["name"] for event in shown[1:]] == [f"iteration {i}" for i in range(4)]
    assert shown[0]["name"].startswith("loop/")


def test_a_kernel_that_waits_for_another_thread_is_in_flight() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        queue = ops.data_flow.fifo_queue_v2(component_types=["float32"], name="queue")
        ops.data_flow.queue_enqueue_v2(queue, [graph.constant(4.0)], name="put")
        ops.data_flow.queue_dequeue_v2(queue, component_types=["float32"], name="take")
    metadata = graphmill.RunMetadata()
    with graphmill.Session(graph=graph) as session:
        options = {"trace_level": "FULL_TRACE"}
        session.run("take:0", targets=["put"], options=options, run_metadata=metadata)
    runs = {run.name: run.thread_name for run in node_runs(metadata)}
    assert runs["put"] == threading.current_thread().name
    assert runs["take"] in {"in flight", runs["put"]}  # the order of both nodes is free


def test_compilations_are_a_process_of_their_own(graph: graphmill.Graph) -> None:
    timeline = Timeline()
    config = {"graphmill": {"jit": "eager", "jit_min_cluster_size": 1}}
    metadata = graphmill.RunMetadata()
    feeds = {"x:0": np.eye(4, dtype=np.float32)}
    with graphmill.Session(graph=graph, config=config) as session:
        options = {"trace_level": "FULL_TRACE"}
        session.run("y:0", feeds, options=options, run_metadata=metadata)
        timeline.add_step(metadata)
        assert not [e for e in events(timeline, "X") if e["cat"] == "compilation"]
        timeline.add_compilations(session)
    shown = [event for event in events(timeline, "X") if event["cat"] == "compilation"]
    assert len(shown) == 1
    assert shown[0]["dur"] > 0
    assert shown[0]["args"]["cause"] == "a new signature"
    assert "compiler" in [event["args"]["name"] for event in events(timeline, "M")]


def test_a_trace_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    timeline = Timeline(stats(("a = X()", 0, 1)))
    with pytest.raises(graphmill.errors.OpError, match="file"):
        timeline.save(tmp_path / "file" / "trace.json")
