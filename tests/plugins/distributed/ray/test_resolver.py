"""`RayClusterResolver`: addresses from the directory, and change events."""

from __future__ import annotations

import queue
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from graphmill.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
)
from graphmill_plugins.distributed.ray import RayClusterResolver
from graphmill_plugins.distributed.ray.directory import Directory, Registration
from graphmill_plugins.distributed.ray.engine import ActorOptions, ray_engine
from graphmill_plugins.distributed.ray.names import first_task, namespace_of, parse_target

SECONDS = 30


def registered(engine: Any, index: int, address: str, incarnation: int) -> None:
    directory = engine.find_actor("directory", "graphmill/lab")
    mine = Registration("worker", index, address, incarnation)
    engine.call(directory, "exchange", mine, None, SECONDS).result(SECONDS)


@pytest.fixture
def directory(engine: Any) -> Any:
    engine.connect(may_start=True)
    options = ActorOptions("directory", "graphmill/lab", repeats_calls=True)
    made = engine.start_actor(Directory, ({"worker": 2},), options)
    registered(engine, 0, "a:1", 1)
    return made


def test_cluster_is_resolved_when_all_tasks_are(engine: Any, directory: Any) -> None:
    resolver = RayClusterResolver("lab", timeout=0.01)
    with pytest.raises(UnavailableError, match=r"not started within 0\.01 s: /job:worker/task:1"):
        resolver.cluster_spec()
    registered(engine, 1, "b:1", 2)
    assert resolver.cluster_spec() == {"worker": {0: "a:1", 1: "b:1"}}
    assert resolver.master() == "grpc://a:1"
    assert resolver.master("worker", 1) == "grpc://b:1"
    assert RayClusterResolver("lab", "worker", 1).master() == "grpc://b:1"


def test_moves_and_restarts_are_reported_once(engine: Any, directory: Any) -> None:
    registered(engine, 1, "b:1", 2)
    resolver = RayClusterResolver("lab")
    changes: queue.Queue[Any] = queue.Queue()
    end = resolver.watch(changes.put)
    registered(engine, 1, "b:2", 3)
    moved = changes.get(timeout=SECONDS)
    assert moved.tasks == {("worker", 1)}
    assert moved.cluster == {"worker": {0: "a:1", 1: "b:2"}}
    assert resolver.cluster_spec()["worker"][1] == "b:2"  # asking does not swallow the next event
    registered(engine, 0, "a:1", 4)  # another life at the same address
    assert resolver.registrations()["worker", 0].incarnation == 4
    assert changes.get(timeout=SECONDS).tasks == {("worker", 0)}
    end()
    end()
    registered(engine, 0, "a:9", 5)
    assert changes.empty()


def test_directory_restart_loses_no_watched_task(engine: Any, directory: Any) -> None:
    registered(engine, 1, "b:1", 2)
    resolver = RayClusterResolver("lab")
    changes: queue.Queue[Any] = queue.Queue()
    end = resolver.watch(changes.put)
    engine.kill(directory, restarts=True)
    registered(engine, 1, "b:2", 3)
    assert changes.get(timeout=SECONDS).cluster == {"worker": {0: "a:1", 1: "b:2"}}
    end()


def test_a_cluster_that_does_not_run_is_named(engine: Any) -> None:
    with pytest.raises(UnavailableError):
        RayClusterResolver("lab")
    engine.connect(may_start=True)
    with pytest.raises(NotFoundError, match=r"no cluster 'lab' is running on Ray; start_cluster"):
        RayClusterResolver("lab")


def test_missing_ray_names_the_extra(monkeypatch: Any) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(FailedPreconditionError, match=r"pip install 'graphmill\[ray\]'"):
        ray_engine()


def test_targets_name_a_cluster_and_perhaps_a_task() -> None:
    assert parse_target("ray-cluster://lab") == ("lab", None, 0)
    assert parse_target("ray-cluster://lab/ps/3") == ("lab", "ps", 3)
    for wrong in ("ray-cluster://", "ray-cluster://lab/ps", "ray-cluster://a b", "grpc://lab"):
        with pytest.raises(InvalidArgumentError, match="malformed target"):
            parse_target(wrong)
    with pytest.raises(InvalidArgumentError, match="malformed cluster name"):
        namespace_of("my lab")


def test_sessions_default_to_chief_or_worker() -> None:
    assert first_task({"ps": 1, "worker": 2, "chief": 1}) == ("chief", 0)
    assert first_task({"ps": 1, "worker": 2}) == ("worker", 0)
    assert first_task({"ps": 1, "evaluator": 2}) == ("evaluator", 0)


def test_tasks_that_are_about_to_start_are_waited_for(engine: Any, directory: Any) -> None:
    with ThreadPoolExecutor() as pool:
        spec = pool.submit(RayClusterResolver("lab", timeout=SECONDS).cluster_spec)
        registered(engine, 1, "b:1", 2)
        assert spec.result(SECONDS) == {"worker": {0: "a:1", 1: "b:1"}}
