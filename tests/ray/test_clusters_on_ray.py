"""Clusters on Ray: training survives killed workers with unchanged results."""

from __future__ import annotations

import os
import queue
import signal
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import ops
from graphmill.errors import (
    AlreadyExistsError,
    NotFoundError,
    OpError,
    ResourceExhaustedError,
)

if TYPE_CHECKING:
    from pathlib import Path

STEPS = 100
KILLS = {30: 0, 50: 1, 70: 2, 90: 3}  # by step; checkpoints are those of 20, 40, 60, 80
SECONDS = 120


def crossing() -> graphmill.Graph:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        for worker in (3, 2, 1, 0):
            with graph.device(f"/job:worker/task:{worker}"):
                x = ops.math.add_v2(x, np.float32(1))
        ops.array.identity(x, name="z")
    return graph


def test_session_reaches_all_workers_by_cluster_name(cluster: Any) -> None:
    with graphmill.Session(cluster.target, graph=crossing()) as session:
        assert session.run("z:0", {"x:0": 3.0}) == 7
        assert len({d.name.partition("/device")[0] for d in session.list_devices()}) == 4
    assert [task.health for task in cluster.status()] == ["SERVING"] * 4


def test_killed_process_restarts_elsewhere_with_new_incarnation(
    cluster: Any,
) -> None:
    import ray

    before = cluster.status()
    changes: queue.Queue[Any] = queue.Queue()
    end = cluster.resolver().watch(changes.put)
    os.kill(_pid_of(ray, 2), signal.SIGKILL)
    change = changes.get(timeout=SECONDS)
    end()
    assert change.tasks == {("worker", 2)}
    cluster.wait_ready(SECONDS)
    after = cluster.status()
    assert after[2].incarnation != before[2].incarnation
    assert after[2].address == change.cluster["worker"][2] != before[2].address
    assert [after[k] for k in (0, 1, 3)] == [before[k] for k in (0, 1, 3)]
    with graphmill.Session(cluster.target, graph=crossing()) as session:
        assert session.run("z:0", {"x:0": 3.0}) == 7


def test_training_losing_every_worker_has_the_same_result(
    cluster: Any, example: Any, tmp_path: Path
) -> None:
    undisturbed = example.Training()
    expected, accuracy = undisturbed.run(cluster.target, str(tmp_path / "undisturbed"), STEPS)
    assert accuracy > 0.8
    before = {task.index: task.incarnation for task in cluster.status()}
    training = example.Training()
    killer = example.KillWorkers(cluster, training.number, KILLS)
    loss, again = training.run(cluster.target, str(tmp_path / "killed"), STEPS, [killer])
    after = {task.index: task.incarnation for task in cluster.status()}
    assert all(before[worker] != after[worker] for worker in range(4))
    np.testing.assert_allclose([loss, again], [expected, accuracy], rtol=1e-4)


def test_the_directory_of_a_cluster_may_be_killed(cluster: Any) -> None:
    import ray

    directory = ray.get_actor("directory", namespace="graphmill/tests")
    ray.kill(directory, no_restart=False)
    before = cluster.status()[1].incarnation
    cluster.restart("worker", 1)
    assert cluster.status()[1].incarnation != before
    with graphmill.Session(cluster.target, graph=crossing()) as session:
        assert session.run("z:0", {"x:0": 3.0}) == 7


def test_missing_ray_resources_are_reported(cluster: Any) -> None:
    from graphmill_plugins.distributed.ray import RayCluster, start_cluster

    with pytest.raises(ResourceExhaustedError, match="has not reserved the resources of 2 tasks"):
        start_cluster(2, name="large", resources={"CPU": 1000}, timeout=0.5)
    with pytest.raises(NotFoundError, match="no cluster 'large'"):
        RayCluster.connect("large")
    with pytest.raises(AlreadyExistsError):
        start_cluster(1, name="tests")


def test_the_port_of_a_task_can_be_fixed(cluster: Any) -> None:
    from tests.plugins.distributed.server.test_cluster import free_addresses

    from graphmill_plugins.distributed.ray import start_cluster

    port = int(free_addresses(1)[0].rpartition(":")[2])
    with start_cluster(1, name="fixed", resources={"CPU": 0.25}, port_base=port) as fixed:
        (before,) = fixed.status()
        fixed.restart("worker", 0)
        (after,) = fixed.status()
        assert after.incarnation != before.incarnation
        assert after.address == before.address
        assert after.address.endswith(f":{port}")


def test_a_port_that_is_taken_is_reported_and_leaves_nothing(cluster: Any) -> None:
    from graphmill_plugins.distributed.ray import RayCluster, start_cluster

    port = int(cluster.status()[0].address.rpartition(":")[2])
    with pytest.raises(OpError, match="the port is in use"):
        start_cluster(1, name="taken", resources={"CPU": 0.25}, port_base=port)
    with pytest.raises(NotFoundError):
        RayCluster.connect("taken")


def _pid_of(ray: Any, index: int) -> int:
    actor = ray.get_actor(f"worker:{index}", namespace="graphmill/tests")
    pid: int = ray.get(actor.pid.remote(), timeout=SECONDS)
    return pid
