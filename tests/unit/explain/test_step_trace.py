"""`StepTrace`: passed as `run_metadata`, it is described when it is read."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import ops, proto
from graphmill.errors import InvalidArgumentError, OpError
from graphmill.explain.compilation import ClusterRecord
from graphmill.runtime.steps.step_stats import StepStatsCollector
from graphmill.timeline import StepTrace, Timeline, node_runs

OFF = {"graphmill": {"jit": "off"}}


def logarithm() -> graphmill.Graph:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        checked = ops.array.check_numerics(ops.math.log(x, name="log"), message="", name="safe")
        ops.math.neg(checked, name="y")
    return graph


def test_a_trace_has_the_statistics_of_the_same_step_as_run_metadata() -> None:
    trace, metadata = StepTrace(), graphmill.RunMetadata()
    options = {"trace_level": "FULL_TRACE"}
    with graphmill.Session(graph=logarithm(), config=OFF) as session:
        session.run("y:0", {"x:0": [1.0, 2.0]}, run_metadata=trace)
        session.run("y:0", {"x:0": [1.0, 2.0]}, options=options, run_metadata=metadata)
    shown = [(run.name, run.op, run.inputs, run.outputs) for run in node_runs(trace)]
    assert sorted(shown) == sorted(
        (run.name, run.op, run.inputs, run.outputs) for run in node_runs(metadata)
    )
    assert {name for name, *_ in shown} >= {"log", "safe", "y"}


def test_statistics_are_written_on_the_first_read(monkeypatch: pytest.MonkeyPatch) -> None:
    serialized: list[Any] = []
    serialize = StepStatsCollector.serialize

    def count(collector: StepStatsCollector) -> bytes:
        serialized.append(collector)
        return serialize(collector)

    monkeypatch.setattr(StepStatsCollector, "serialize", count)
    timeline, trace = Timeline(), StepTrace()
    with graphmill.Session(graph=logarithm(), config=OFF) as session:
        session.run("y:0", {"x:0": [1.0]}, run_metadata=trace)
        timeline.add_step(trace)
    assert not serialized
    timeline.generate_chrome_trace_format()
    timeline.generate_chrome_trace_format()
    assert len(serialized) == 1
    assert trace.step_stats is trace.metadata.step_stats


def test_other_options_of_a_traced_step_are_preserved() -> None:
    trace = StepTrace()
    options = proto.RunOptions(output_partition_graphs=True)
    config = {**OFF, "experimental": {"session_metadata": {"name": "mine"}}}
    with graphmill.Session(graph=logarithm(), config=config) as session:
        session.run("y:0", {"x:0": [1.0]}, options=options, run_metadata=trace)
    assert options.trace_level == proto.RunOptions.NO_TRACE
    assert len(trace.metadata.partition_graphs) == 1
    assert trace.metadata.session_metadata.name == "mine"
    assert trace.has_statistics


def test_a_trace_of_a_step_that_failed_ends_at_the_failure() -> None:
    trace = StepTrace()
    with graphmill.Session(graph=logarithm(), config=OFF) as session, pytest.raises(OpError):
        session.run("y:0", {"x:0": [-1.0]}, run_metadata=trace)
    names = {run.name for run in node_runs(trace)}
    assert "log" in names
    assert not names & {"y", "_retval_y_0_0"}


def test_a_callable_traces_its_steps_if_its_options_do() -> None:
    options = {"trace_level": "FULL_TRACE"}
    trace, untraced = StepTrace(), StepTrace()
    with graphmill.Session(graph=logarithm(), config=OFF) as session:
        session.make_callable("y:0", ["x:0"], options=options)([1.0], run_metadata=trace)
        session.make_callable("y:0", ["x:0"])([1.0], run_metadata=untraced)
    assert trace.has_statistics
    assert not untraced.has_statistics
    with pytest.raises(InvalidArgumentError, match="no statistics"):
        Timeline().add_step(untraced)


def test_a_trace_before_its_step_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"run_metadata=StepTrace\(\)"):
        Timeline().add_step(StepTrace())


def test_a_trace_can_be_used_for_another_step() -> None:
    trace = StepTrace()
    with graphmill.Session(graph=logarithm(), config=OFF) as session:
        session.run("log:0", {"x:0": [1.0]}, run_metadata=trace)
        assert "y" not in {run.name for run in node_runs(trace)}
        session.run("y:0", {"x:0": [1.0]}, run_metadata=trace)
    assert "y" in {run.name for run in node_runs(trace)}


def test_a_trace_is_copied_and_serialized_as_its_message() -> None:
    trace, copied = StepTrace(), StepTrace()
    with graphmill.Session(graph=logarithm(), config=OFF) as session:
        session.run("y:0", {"x:0": [1.0]}, run_metadata=trace)
    copied.CopyFrom(trace.metadata)
    assert copied.SerializeToString() == trace.SerializeToString()
    assert copied.has_statistics


def test_a_trace_that_was_read_releases_the_graphs() -> None:
    trace = StepTrace()
    graph = logarithm()
    with graphmill.Session(graph=graph, config=OFF) as session:
        session.run("y:0", {"x:0": [1.0]}, run_metadata=trace)
        partition = weakref.ref(session._impl.cached_executors()[0].items[0].graph)  # type: ignore[attr-defined]
    del session
    assert node_runs(trace)
    gc.collect()
    assert partition() is None


@pytest.mark.jax
def test_the_tier_of_a_cluster_is_that_of_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [2], name="x")
        ops.math.neg(ops.math.exp(ops.math.tanh(x)), name="y")
    trace = StepTrace()
    with graphmill.Session(graph=graph, config={"graphmill": {"jit": "eager"}}) as session:
        session.run("y:0", {"x:0": np.ones(2, np.float32)}, run_metadata=trace)
        monkeypatch.setattr(ClusterRecord, "tier", "another")
        notes = {run.note for run in node_runs(trace)}
    assert {"compiled" in note for note in notes if note} == {True}
