"""Timelines: slices that nest, arrows from producers, memory, several steps."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import ops
from graphmill.errors import InvalidArgumentError
from graphmill.proto.step_stats_pb2 import StepStats
from graphmill.timeline import Timeline

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


def test_slices_that_overlap_get_rows_of_their_own() -> None:
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


def test_a_trace_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    timeline = Timeline(stats(("a = X()", 0, 1)))
    with pytest.raises(graphmill.errors.OpError, match="file"):
        timeline.save(tmp_path / "file" / "trace.json")
