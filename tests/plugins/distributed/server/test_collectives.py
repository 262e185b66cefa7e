"""Collectives on servers: between the devices of a task, and refused between tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops, proto

pytest.importorskip("grpc")

from tests.plugins.distributed.server.test_cluster import free_addresses

if TYPE_CHECKING:
    from collections.abc import Sequence


def reduced(target: str, devices: Sequence[str], key: int = 0) -> list[Any]:
    """Add up what each device brings, in a session of a server."""
    graph = graphmill.Graph()
    with graph.as_default():
        sums = []
        for number, device in enumerate(devices):
            with graph.device(device):
                value = ops.array.const(value=np.float32([1, number]), dtype="float32")
                sums.append(
                    ops.distributed.collective_reduce(
                        value,
                        group_size=len(devices),
                        group_key=5,
                        instance_key=8,
                        merge_op="Add",
                        final_op="Id",
                        subdiv_offsets=[0],
                        timeout_seconds=20,
                    )
                )
    options = proto.RunOptions()
    options.experimental.collective_graph_key = key
    with graphmill.Session(target, graph=graph) as session:
        session.run(sums, options=options)
        return [value.tolist() for value in session.run(sums, options=options)]


def test_devices_of_a_task_reduce() -> None:
    config = proto.ConfigProto(device_count={"CPU": 2})
    with graphmill.Server({"worker": free_addresses(1)}, "worker", 0, config=config) as server:
        devices = [f"/job:worker/task:0/device:CPU:{number}" for number in range(2)]
        assert reduced(server.target, devices, key=3) == [[2, 1], [2, 1]]


def test_a_group_of_two_tasks_is_refused() -> None:
    cluster = {"worker": free_addresses(2)}
    with (
        graphmill.Server(cluster, "worker", 0) as first,
        graphmill.Server(cluster, "worker", 1),
        pytest.raises(errors.UnimplementedError) as caught,
    ):
        reduced(first.target, ["/job:worker/task:0", "/job:worker/task:1"])
    message = str(caught.value)
    assert "there are no collectives between tasks" in message
    assert "group 5, instance 8, on /job:worker/replica:0/task:" in message
