"""Collectives on servers: between the devices of a task, and between tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops, proto

pytest.importorskip("grpc")

from tests.plugins.distributed.server.test_cluster import free_addresses

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def reduced(target: str, devices: Sequence[str], key: int = 0) -> list[Any]:
    """Sum the values of all devices in a session of a server."""
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


@pytest.fixture(params=[1, 2], ids=["a device each", "two devices each"])
def cluster(request: pytest.FixtureRequest) -> Any:
    """Yield the target of the first of three tasks, and all devices."""
    config = proto.ConfigProto(device_count={"CPU": request.param})
    tasks = {"worker": free_addresses(3)}
    with (
        graphmill.Server(tasks, "worker", 2, config=config),
        graphmill.Server(tasks, "worker", 1, config=config),
        graphmill.Server(tasks, "worker", 0, config=config) as first,
    ):
        devices = [
            f"/job:worker/task:{task}/device:CPU:{number}"
            for task in range(3)
            for number in range(request.param)
        ]
        yield first.target, devices


def test_tasks_reduce(cluster: tuple[str, list[str]]) -> None:
    target, devices = cluster
    size = len(devices)
    assert reduced(target, devices) == [[size, size * (size - 1) / 2]] * size


def test_one_task_alone_reduces_in_a_cluster(cluster: tuple[str, list[str]]) -> None:
    target, devices = cluster
    of_last = [device for device in devices if "task:2" in device]
    assert reduced(target, of_last) == [[len(of_last), len(of_last) - 1.0]] * len(of_last)


def placed(devices: Sequence[str], make: Callable[[int], Any]) -> tuple[Any, list[Any]]:
    """Return a graph with a node on each device."""
    graph = graphmill.Graph()
    with graph.as_default():
        made = []
        for number, device in enumerate(devices):
            with graph.device(device):
                made.append(make(number))
    return graph, made


def common(size: int) -> dict[str, Any]:
    return {"group_size": size, "group_key": 1, "instance_key": 2, "timeout_seconds": 20}


def constant(value: Any) -> Any:
    return ops.array.const(value=np.float32(value), dtype="float32")


def test_tasks_gather_and_broadcast(cluster: tuple[str, list[str]]) -> None:
    target, devices = cluster
    devices = devices[:: len(devices) // 3]
    graph, gathered = placed(
        devices,
        lambda n: ops.distributed.collective_gather(constant([n, 7]), shape=[6], **common(3)),
    )
    with graphmill.Session(target, graph=graph) as session:
        for value in session.run(gathered):
            assert value.tolist() == [0, 7, 1, 7, 2, 7]

    def cast(number: int) -> Any:
        if number == 1:
            return ops.distributed.collective_bcast_send(constant([4, 2]), shape=[2], **common(3))
        return ops.distributed.collective_bcast_recv(T="float32", shape=[2], **common(3))

    graph, cast_to = placed(devices, cast)
    with graphmill.Session(target, graph=graph) as session:
        assert [value.tolist() for value in session.run(cast_to)] == [[4, 2]] * 3


def test_large_tensors_are_added_in_the_order_of_devices(cluster: tuple[str, list[str]]) -> None:
    target, devices = cluster
    values = np.random.default_rng(3).standard_normal((len(devices), 70_000)).astype(np.float32)

    def add(number: int) -> Any:
        return ops.distributed.collective_reduce(
            constant(values[number]), merge_op="Add", final_op="Id", subdiv_offsets=[0],
            **common(len(devices)),
        )  # fmt: skip

    graph, sums = placed(devices, add)
    expected = values[0]
    for one in values[1:]:
        expected = expected + one
    with graphmill.Session(target, graph=graph) as session:
        for value in session.run(sums):
            np.testing.assert_array_equal(value, expected)


def test_a_failed_member_fails_the_others(cluster: tuple[str, list[str]]) -> None:
    target, devices = cluster

    def add(number: int) -> Any:
        value = constant([np.nan if number == 1 else 1.0])
        checked = ops.array.check_numerics(value, message="no number", name=f"checked{number}")
        return ops.distributed.collective_reduce(
            checked, merge_op="Add", final_op="Id", subdiv_offsets=[0], **common(len(devices))
        )

    graph, sums = placed(devices, add)
    with (
        graphmill.Session(target, graph=graph) as session,
        pytest.raises(errors.InvalidArgumentError, match="no number") as caught,
    ):
        session.run(sums)
    assert caught.value.node == "checked1"


@pytest.mark.parametrize(
    ("kind", "what"), [("shape", "shape"), ("dtype", "dtype"), ("size", "group size")]
)
def test_members_of_other_tasks_must_agree(
    cluster: tuple[str, list[str]], kind: str, what: str
) -> None:
    target, devices = cluster
    devices = devices[:: len(devices) // 3]

    def add(number: int) -> Any:
        is_odd = number == 2
        dtype = "float64" if kind == "dtype" and is_odd else "float32"
        shape = [3] if kind == "shape" and is_odd else [2]
        value = ops.array.const(value=np.ones(shape, dtype), dtype=dtype)
        size = 2 if kind == "size" and is_odd else 3
        return ops.distributed.collective_reduce(
            value, merge_op="Add", final_op="Id", subdiv_offsets=[0], **common(size)
        )

    graph, sums = placed(devices, add)
    with graphmill.Session(target, graph=graph) as session, pytest.raises(errors.OpError) as caught:
        session.run(sums)
    assert what in str(caught.value)


def test_absent_collective_member_is_reported_after_timeout(
    cluster: tuple[str, list[str]],
) -> None:
    target, devices = cluster
    devices = devices[:: len(devices) // 3]
    arguments = common(3) | {"timeout_seconds": 0.5}

    def add(number: int) -> Any:
        return ops.distributed.collective_reduce(
            constant([1]), merge_op="Add", final_op="Id", subdiv_offsets=[0],
            **(arguments | {"instance_key": 2 + number // 2}),
        )  # fmt: skip

    graph, sums = placed(devices, add)
    with (
        graphmill.Session(target, graph=graph) as session,
        pytest.raises(errors.DeadlineExceededError, match="not all 3 members arrived within"),
    ):
        session.run(sums)


def test_members_in_rounds_of_a_loop_meet_round_by_round() -> None:
    tasks = {"worker": free_addresses(2)}

    def loop(number: int) -> Any:
        def body(i: Any, total: Any) -> Any:
            added = ops.distributed.collective_reduce(
                total, merge_op="Add", final_op="Id", subdiv_offsets=[0], **common(2)
            )
            return i + 1, added

        start = (ops.array.const(value=np.int32(0), dtype="int32"), constant([number + 1]))
        return graphmill.while_loop(lambda i, total: i < 3, body, start)[1]

    devices = [f"/job:worker/task:{task}/device:CPU:0" for task in range(2)]
    graph, sums = placed(devices, loop)
    with (
        graphmill.Server(tasks, "worker", 1),
        graphmill.Server(tasks, "worker", 0) as first,
        graphmill.Session(first.target, graph=graph) as session,
    ):
        assert [value.tolist() for value in session.run(sums)] == [[12], [12]]
