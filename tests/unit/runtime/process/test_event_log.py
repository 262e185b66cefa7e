"""Events: off unless asked for, one line with fields, levels from the environment."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from typing import Any

import pytest

import graphmill
from graphmill import ops
from graphmill.errors import InvalidArgumentError
from graphmill.runtime.process.event_log import (
    DEBUG,
    INFO,
    is_logged,
    listen,
    log_event,
    parse_levels,
    stop_listening,
)


def records(caplog: pytest.LogCaptureFixture, event: str) -> list[Any]:
    return [record for record in caplog.records if getattr(record, "event", "") == event]


def two_devices() -> graphmill.Session:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        with graph.device("/device:CPU:0"):
            a = ops.math.neg(x, name="a")
        with graph.device("/device:CPU:1"):
            ops.math.exp(a, name="out")
    config = {"device_count": {"CPU": 2}, "graphmill": {"jit": "off"}}
    return graphmill.Session(graph=graph, config=config)


def test_a_record_has_its_fields_as_text_and_as_a_dict(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "graphmill.jit")
    log_event("jit", INFO, "compiled", cluster="a", seconds=0.5, cause="a new signature")
    log_event("jit", DEBUG, "state changed")
    (record,) = caplog.records
    assert record.getMessage() == 'compiled cluster=a seconds=0.5 cause="a new signature"'
    assert record.fields == {"cluster": "a", "seconds": 0.5, "cause": "a new signature"}  # type: ignore[attr-defined]


def test_listeners_get_events_of_all_levels() -> None:
    seen: list[Any] = []

    def listener(event: str, fields: Any) -> None:
        seen.append((event, dict(fields)))

    listen("plugins", listener)
    listen("plugins", listener)
    try:
        assert is_logged("plugins", DEBUG)
        log_event("plugins", DEBUG, "plugin in use", plugin="p")
    finally:
        stop_listening("plugins", listener)
    stop_listening("plugins", listener)
    assert seen == [("plugin in use", {"plugin": "p"})]
    assert not is_logged("plugins", DEBUG)


def test_levels_are_parsed() -> None:
    assert parse_levels("jit=debug, placement=INFO") == {"jit": "debug", "placement": "info"}
    assert parse_levels("info,jit=debug")["jit"] == "debug"
    assert set(parse_levels("info")) == {"jit", "placement", "plugins", "executor", "rendezvous"}


@pytest.mark.parametrize(
    ("value", "message"),
    [("jitt=debug", "did you mean 'jit'"), ("jit=loud", "expected LOGGER=LEVEL"), ("=", "level")],
)
def test_wrong_values_are_refused(value: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"(?i){message}"):
        parse_levels(value)


def test_placements_executors_and_transfers_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "graphmill.executor")
    for name in ("placement", "rendezvous"):
        caplog.set_level(logging.DEBUG, f"graphmill.{name}")
    with two_devices() as session:
        session.run("out:0", {"x:0": [1.0]})
    placed = {record.fields["node"]: record.fields for record in records(caplog, "node placed")}
    assert placed["a"]["device"].endswith("CPU:0")
    assert placed["out"]["reason"]
    (created,) = records(caplog, "executors created")
    assert created.fields["fetches"] == ("out:0",)
    assert len(created.fields["nodes"]) == 2
    sent, received = records(caplog, "sent"), records(caplog, "received")
    assert [record.fields["bytes"] for record in sent] == [4]
    assert [record.fields["key"] for record in received] == [sent[0].fields["key"]]


def test_another_shape_is_the_reason_for_another_compilation(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pytest.importorskip("jax")
    caplog.set_level(logging.DEBUG, "graphmill.jit")
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        ops.math.tanh(ops.math.exp(ops.math.neg(x)), name="out")
    with graphmill.Session(graph=graph, config={"graphmill": {"jit": "eager"}}) as session:
        for size in (2, 3):
            session.run("out:0", {"x:0": [1.0] * size})
            session.host.background.wait_idle()
        stats = session.stats()
    attempts = [*records(caplog, "compiled"), *records(caplog, "loaded")]
    causes = sorted(record.fields["cause"] for record in attempts)
    assert causes == [
        "a new signature",
        "a new signature: input 0 is float32[3], was float32[2]",
    ]
    changes = records(caplog, "state changed")
    assert {change.fields["after"] for change in changes} >= {"compiling"}
    assert (stats.num_steps, stats.num_signatures) == (2, 1)
    assert stats.num_compiled + stats.num_loaded == 2
    assert stats.compiled_calls + stats.straight_calls == 2
    assert stats.as_dict()["num_clusters"] == 1


def test_each_step_is_in_one_counter() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        ops.math.neg(x, name="y")  # too small to be compiled
    options = graphmill.RunOptions()
    options.debug_options.debug_tensor_watch_opts.add(
        node_name="y", debug_ops=["DebugIdentity"], debug_urls=["callback://counter"]
    )
    seen: list[Any] = []
    host = graphmill.Host()
    host.debug_callbacks["counter"] = seen.append
    with graphmill.Session("", graph, None, host) as session:
        for _ in range(2):
            session.run("y:0", {"x:0": [1.0]}, options=options)
        for _ in range(5):
            session.run("y:0", {"x:0": [1.0]})
            session.host.background.wait_idle()
        stats = session.stats()
    assert len(seen) == 2
    assert stats.num_steps == 7
    assert stats.num_watched_steps == 2
    assert (stats.num_interpreted_steps, stats.num_hot_steps) == (3, 2)
    assert stats.straight_calls == stats.compiled_calls == 0


def test_stats_of_a_session_that_ran_nothing_are_zero() -> None:
    with graphmill.Session(graph=graphmill.Graph()) as session:
        assert set(session.stats().as_dict().values()) == {0}


@pytest.mark.parametrize(
    ("value", "line"), [("executor=info", "executors created"), ("plugins=debug", "plugin in use")]
)
def test_the_environment_variable_writes_to_stderr(value: str, line: str) -> None:
    done = run_program(value)
    assert done.returncode == 0, done.stderr
    assert f"graphmill.{value.partition('=')[0]} {line}" in done.stderr


def test_nothing_is_written_or_imported_without_the_variable() -> None:
    done = run_program("")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_wrong_variable_is_a_typed_error() -> None:
    done = run_program("jit=loud")
    assert done.returncode != 0
    assert "InvalidArgumentError: GRAPHMILL_LOG: 'jit=loud' has no known level" in done.stderr


def run_program(value: str) -> subprocess.CompletedProcess[str]:
    code = (
        "import graphmill; g = graphmill.Graph(); g.as_default().__enter__();"
        "y = g.constant(1.0, name='y'); graphmill.Session(graph=g).run(y)"
    )
    environment = {**os.environ, "GRAPHMILL_LOG": value}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
