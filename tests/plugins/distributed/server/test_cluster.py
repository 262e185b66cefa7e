"""Servers of one cluster: a master runs steps on all tasks and reports failures."""

from __future__ import annotations

import random
import socket
import time
from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import ops, proto

pytest.importorskip("grpc")

from tests.plugins.distributed.served_master import MasterClient, status_of


def free_addresses(count: int) -> list[str]:
    """Return addresses with free ports outside of the ephemeral range."""
    random_port = random.SystemRandom()
    found: dict[str, socket.socket] = {}
    while len(found) < count:
        listener = socket.socket()
        try:
            listener.bind(("127.0.0.1", random_port.randrange(10_000, 30_000)))
        except OSError:
            listener.close()
        else:
            found[f"127.0.0.1:{listener.getsockname()[1]}"] = listener
    for listener in found.values():
        listener.close()
    return list(found)


@pytest.fixture(scope="module")
def servers() -> Any:
    first, second, third = free_addresses(3)
    cluster = {"worker": [first, second], "ps": [third]}
    made = [graphmill.Server(cluster, *task) for task in (("worker", 0), ("worker", 1), ("ps", 0))]
    yield made
    for server in made:
        server.stop()


@pytest.fixture
def master(servers: Any) -> Any:
    with MasterClient(servers[0].target) as client:
        yield client


def program() -> Any:
    """A variable on a parameter server, and arithmetic on two workers."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [2], name="x")
        with graph.device("/job:ps/task:0"):
            v = graphmill.Variable(np.ones(2, np.float32), name="v")
        with graph.device("/job:worker/task:0"):
            y = ops.math.mul(v, x, name="y")
        with graph.device("/job:worker/task:1"):
            ops.math.add_v2(y, np.float32(1), name="z")
            ops.array.check_numerics(x, message=b"nan!", name="checked")
        v.assign_add(np.ones(2, np.float32))
        init = v.initializer.name
    return graph.as_graph_def(), init


def loop() -> Any:
    """A loop whose iterations cross to another task and back."""
    graph = graphmill.Graph()
    with graph.as_default():
        n = graph.placeholder("int32", [], name="n")

        def body(i: Any, a: Any) -> Any:
            with graph.device("/job:worker/task:1"):
                doubled = a * 2.0
            return i + 1, doubled

        with graph.device("/job:worker/task:0"):
            _, result = graphmill.while_loop(lambda i, a: i < n, body, [0, 1.0])
            ops.array.identity(result, name="result")
    return graph.as_graph_def()


def test_step_runs_on_tasks_of_its_nodes(master: Any) -> None:
    graph, init = program()
    handle = master.create(graph)
    master.run(handle, targets=[init])
    x = np.float32([1, 2])
    (z,) = master.run(handle, ["z:0"], {"x:0": x})
    assert z == [2, 3]
    other = master.create(graph)  # its variables are those of the parameter server
    assert master.run(other, ["z:0"], {"x:0": x})[0] == [2, 3]


def test_a_loop_may_cross_tasks_in_each_iteration(master: Any) -> None:
    handle = master.create(loop())
    for count in (0, 1, 5):
        (found,) = master.run(handle, ["result:0"], {"n:0": np.int32(count)})
        assert found == 2**count


def test_the_error_of_another_task_names_task_and_node(master: Any) -> None:
    graph, _ = program()
    handle = master.create(graph)
    request = master.run_request(handle, ["checked:0"], {"x:0": np.float32([np.nan, 1])})
    code, message = status_of(lambda: master.call("RunStep", request))
    assert code == "INVALID_ARGUMENT"
    assert message.startswith("From /job:worker/replica:0/task:1:\n")
    assert message.endswith("[[{{node checked}}]]")
    assert master.run(handle, ["checked:0"], {"x:0": np.float32([0, 1])})[0] == [0, 1]


@pytest.mark.parametrize("has_session", [True, False])
def test_the_devices_of_all_tasks_are_listed(has_session: bool, master: Any) -> None:
    handle = master.create(program()[0]) if has_session else ""
    found = master.call("ListDevices", proto.ListDevicesRequest(session_handle=handle))
    assert {d.name.partition("/device")[0] for d in found.local_device} == {
        "/job:worker/replica:0/task:0"
    }
    assert {d.name.partition("/device")[0] for d in found.remote_device} == {
        "/job:worker/replica:0/task:1",
        "/job:ps/replica:0/task:0",
    }


def test_each_task_can_be_the_master(servers: Any) -> None:
    graph, init = program()
    for server in servers:
        with MasterClient(server.target) as client:
            handle = client.create(graph)
            client.run(handle, targets=[init])
            (z,) = client.run(handle, ["z:0"], {"x:0": np.float32([3, 4])})
            assert z == [4, 5]


def test_master_records_last_contact_of_each_task(servers: Any, master: Any) -> None:
    before = time.time()
    handle = master.create(program()[0])
    master.call("ListDevices", proto.ListDevicesRequest(session_handle=handle))
    found = servers[0]._impl._cluster.last_heartbeats()
    assert set(found) == {"/job:worker/replica:0/task:1", "/job:ps/replica:0/task:0"}
    assert all(before - 1 <= when <= time.time() + 1 for when in found.values())


def test_reset_clears_the_containers_of_all_tasks(master: Any) -> None:
    graph, init = program()
    handle = master.create(graph)
    master.run(handle, targets=[init])
    master.call("Reset", proto.ResetRequest())
    request = master.run_request(handle, ["y:0"], {"x:0": np.float32([1, 2])})
    assert status_of(lambda: master.call("RunStep", request))[0] == "ABORTED"
    again = master.create(graph)
    request = master.run_request(again, ["y:0"], {"x:0": np.float32([1, 2])})
    assert status_of(lambda: master.call("RunStep", request))[0] == "FAILED_PRECONDITION"


def test_unreachable_task_fails_the_session_and_is_named() -> None:
    here, away = free_addresses(2)
    config = {"operation_timeout_in_ms": 200}
    with (
        graphmill.Server({"worker": [here, away]}, "worker", 0, config) as server,
        MasterClient(server.target) as client,
    ):
        code, message = status_of(lambda: client.create(program()[0]))
    assert code in ("DEADLINE_EXCEEDED", "UNAVAILABLE")
    assert "/job:worker/replica:0/task:1" in message


def test_device_filters_exclude_an_unreachable_task() -> None:
    here, away = free_addresses(2)
    with (
        graphmill.Server({"worker": [here, away]}, "worker", 0) as server,
        MasterClient(server.target) as client,
    ):
        graph = graphmill.Graph()
        with graph.as_default():
            ops.math.neg(graph.placeholder("float32", [], name="x"), name="y")
        handle = client.create(graph.as_graph_def(), device_filters=["/job:worker/task:0"])
        assert client.run(handle, ["y:0"], {"x:0": np.float32(2)}) == [-2]
