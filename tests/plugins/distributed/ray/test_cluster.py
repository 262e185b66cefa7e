"""`start_cluster`: tasks that serve, die and restart, on a fake of Ray."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import ops
from graphmill.errors import (
    AlreadyExistsError,
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    UnavailableError,
)
from graphmill_plugins.distributed.ray import RayCluster, start_cluster

pytest.importorskip("grpc")

NAMESPACE = "graphmill/lab"


@pytest.fixture
def cluster(engine: Any) -> Any:
    with start_cluster(2, name="lab", engine=engine) as made:
        yield made


def crossing() -> graphmill.Graph:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        with graph.device("/job:worker/task:1"):
            y = ops.math.square(x)
        with graph.device("/job:worker/task:0"):
            ops.math.add_v2(y, np.float32(1), name="z")
    return graph


def test_one_call_starts_tasks_that_run_sessions(engine: Any, cluster: RayCluster) -> None:
    assert cluster.target == "ray-cluster://lab"
    with graphmill.Session(cluster.target, graph=crossing()) as session:
        assert session.run("z:0", {"x:0": 3.0}) == 10
    with graphmill.Session("ray-cluster://lab/worker/1", graph=crossing()) as session:
        assert session.run("z:0", {"x:0": 2.0}) == 5
    assert engine.placements == {NAMESPACE: ([{"CPU": 1.0}] * 2, "PACK")}
    options = [actor.options for actor in engine.actors.values()]
    assert [(o.name, o.bundle, o.repeats_calls) for o in options] == [
        ("directory", 0, True),
        ("worker:0", 0, False),
        ("worker:1", 1, False),
    ]


@pytest.mark.parametrize("index", [0, 1])
def test_killed_task_is_found_at_its_new_address(
    engine: Any, cluster: RayCluster, index: int
) -> None:
    before = {task.index: task for task in cluster.status()}
    with graphmill.Session(cluster.target, graph=crossing()) as session:
        session.run("z:0", {"x:0": 3.0})
    cluster.restart("worker", index)
    after = {task.index: task for task in cluster.status()}
    assert after[index].incarnation != before[index].incarnation
    assert after[1 - index] == before[1 - index]
    assert [task.health for task in after.values()] == ["SERVING", "SERVING"]
    with graphmill.Session(cluster.target, graph=crossing()) as session:
        assert session.run("z:0", {"x:0": 3.0}) == 10


def test_restarting_task_is_unavailable(engine: Any, cluster: RayCluster) -> None:
    actor = engine.find_actor("worker:0", NAMESPACE)
    actor.end()
    assert [task.health for task in cluster.status()] == ["AWAY", "SERVING"]
    with (
        graphmill.Session(cluster.target, graph=crossing()) as session,
        pytest.raises(UnavailableError),
    ):
        session.run("z:0", {"x:0": 3.0})
    actor.revive()
    cluster.wait_ready(30)  # the other task's actor is back, and all know of it
    with graphmill.Session(cluster.target, graph=crossing()) as session:
        assert session.run("z:0", {"x:0": 3.0}) == 10


def test_a_drained_task_takes_no_calls(cluster: RayCluster) -> None:
    cluster.drain("worker", 1)
    assert [task.health for task in cluster.status()] == ["SERVING", "NOT_SERVING"]


def test_the_directory_may_die(engine: Any, cluster: RayCluster) -> None:
    engine.kill(engine.find_actor("directory", NAMESPACE), restarts=True)
    cluster.restart("worker", 1)
    with graphmill.Session(cluster.target, graph=crossing()) as session:
        assert session.run("z:0", {"x:0": 3.0}) == 10


def test_ports_can_be_fixed(engine: Any) -> None:
    from tests.plugins.distributed.server.test_cluster import free_addresses

    port = int(free_addresses(1)[0].rpartition(":")[2])
    with start_cluster(1, name="lab", port_base=port, engine=engine) as cluster:
        (before,) = cluster.status()
        cluster.restart("worker", 0)
        (after,) = cluster.status()
    assert before.address == after.address == f"127.0.0.1:{port}"
    assert before.incarnation != after.incarnation


def test_stopping_leaves_nothing(engine: Any) -> None:
    cluster = start_cluster({"worker": 1, "ps": 1}, name="lab", engine=engine)
    assert RayCluster.connect("lab", engine=engine).jobs == {"worker": 1, "ps": 1}
    cluster.stop(grace=1)
    cluster.stop()
    assert (engine.actors, engine.placements, engine.is_connected) == ({}, {}, False)
    with pytest.raises(NotFoundError, match="no cluster 'lab'"):
        RayCluster.connect("lab", engine=start_connected(engine))


def start_connected(engine: Any) -> Any:
    engine.connect(may_start=True)
    return engine


def test_a_name_is_taken_once(engine: Any, cluster: RayCluster) -> None:
    with pytest.raises(AlreadyExistsError):
        start_cluster(1, name="lab", engine=engine)
    assert [task.health for task in cluster.status()] == ["SERVING", "SERVING"]


def test_unplaceable_graph_registers_nothing(engine: Any) -> None:
    with pytest.raises(ResourceExhaustedError, match="no room for 9 tasks"):
        start_cluster(9, name="lab", engine=engine)
    assert (engine.actors, engine.is_connected) == ({}, False)


def test_task_names_peers_it_cannot_find(engine: Any, cluster: RayCluster) -> None:
    actor = engine.find_actor("worker:0", NAMESPACE)
    actor.instance._tasks.clear()
    with pytest.raises(DeadlineExceededError, match="worker/task:0, /job:worker/task:1"):
        engine.call(actor, "wait_ready", 0.0, (0, 0)).result(30)


@pytest.mark.parametrize(
    ("tasks", "options", "message"),
    [
        (0, {}, "tasks is 0, expected the number of workers"),
        ({}, {}, "expected the number of workers"),
        ({"worker": "4"}, {}, "expected the number of workers"),
        (2, {"port_base": 65535}, "for 2 ports"),
        (2, {"name": "my lab"}, "malformed cluster name"),
        (2, {"others": {"worker": {1: "a:1"}}}, "Ray starts /job:worker/task:1"),
    ],
)
def test_malformed_arguments_are_refused(
    engine: Any, tasks: Any, options: Any, message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        start_cluster(tasks, engine=engine, **options)
    assert not engine.is_connected


def test_task_that_does_not_restart_is_reported(
    engine: Any, cluster: RayCluster, monkeypatch: Any
) -> None:
    monkeypatch.setattr(engine, "kill", lambda actor, *, restarts: None)
    with pytest.raises(DeadlineExceededError, match="worker/task:1 did not restart within 0 s"):
        cluster.restart("worker", 1, timeout=0)
    monkeypatch.undo()


def test_waiting_outlives_a_restart(engine: Any, cluster: RayCluster) -> None:
    actor = engine.find_actor("worker:1", NAMESPACE)
    actor.end()
    call = engine.call(actor, "wait_ready", 30.0, (0, 0), outlives_restarts=True)
    with pytest.raises(DeadlineExceededError):
        call.result(0)
    actor.revive()
    call.result(30)


def test_unrestartable_task_does_not_block_shutdown(engine: Any, cluster: RayCluster) -> None:
    engine.kill(engine.find_actor("worker:1", NAMESPACE), restarts=False)
    assert [task.health for task in cluster.status()] == ["SERVING", "AWAY"]
    cluster.stop()
    assert (engine.actors, engine.placements) == ({}, {})


def test_a_target_without_ray_names_the_extra(monkeypatch: Any) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    for start in (lambda: start_cluster(2), lambda: graphmill.Session("ray-cluster://lab")):
        with pytest.raises(FailedPreconditionError, match=r"pip install 'graphmill\[ray\]'"):
            start()


def test_tasks_that_are_not_rays_belong_to_the_cluster(engine: Any) -> None:
    from tests.plugins.distributed.server.test_cluster import free_addresses

    chief, worker = free_addresses(2)
    ports = {"port_base": int(worker.rpartition(":")[2]), "others": {"chief": [chief]}}
    with (
        graphmill.Server({"chief": [chief], "worker": [worker]}, "chief", 0) as server,
        start_cluster(1, name="lab", engine=engine, **ports) as cluster,
    ):
        graph = graphmill.Graph()
        with graph.as_default():
            x = graph.placeholder("float32", [], name="x")
            with graph.device("/job:chief/task:0"):
                y = ops.math.square(x)
            with graph.device("/job:worker/task:0"):
                ops.math.add_v2(y, np.float32(1), name="z")
        for target in (server.target, cluster.target):  # the master is theirs, or ours
            with graphmill.Session(target, graph=graph) as session:
                assert session.run("z:0", {"x:0": 3.0}) == 10
