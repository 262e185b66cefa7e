"""The server (W1): port, services, bad requests and shutdown."""

from __future__ import annotations

import random
import socket
import sys
import threading

import pytest
from tests.plugins.distributed.served_master import (
    ARITHMETIC,
    QUEUES,
    TIMEOUT,
    MasterClient,
    grpc,
    status_of,
)

import graphmill
from graphmill import proto
from graphmill.errors import FailedPreconditionError, UnavailableError, UnimplementedError

MASTER_METHODS = [
    *("CreateSession", "ExtendSession", "PartialRunSetup", "RunStep", "CloseSession"),
    *("ListDevices", "Reset", "MakeCallable", "RunCallable", "ReleaseCallable"),
]
TYPED = {"INVALID_ARGUMENT", "ABORTED", "NOT_FOUND", "UNIMPLEMENTED", "ALREADY_EXISTS"}


def test_a_server_listens_on_its_own_address_only(server):
    host, _, port = server.target.removeprefix("grpc://").rpartition(":")
    assert host == "127.0.0.1"
    with socket.create_connection((host, int(port)), timeout=TIMEOUT):
        pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", int(port)), timeout=TIMEOUT)


def test_a_port_in_use_is_refused(server):
    address = server.target.removeprefix("grpc://")
    with pytest.raises(UnavailableError, match=f"cannot listen on {address}"):
        graphmill.Server({"worker": [address]})


def test_a_stopped_server_is_not_started_again():
    server = graphmill.Server(start=False)
    server.stop()
    server.stop()
    server.join()
    with pytest.raises(FailedPreconditionError, match="was stopped"):
        server.start()


def test_a_missing_grpcio_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "grpc", None)
    for name in ("_server.new_server", "distributed.server.grpc_server"):
        monkeypatch.delitem(sys.modules, f"graphmill_plugins.{name}", raising=False)
    with pytest.raises(UnimplementedError, match=r"pip install 'graphmill\[grpc\]'"):
        graphmill.Server()


def test_the_health_service_answers(client):
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    stub = health_pb2_grpc.HealthStub(client.channel)
    for service in ("", "tensorflow.MasterService"):
        answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=TIMEOUT)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_the_worker_of_the_task_is_served_too(server, client):
    data = client.raw("/tensorflow.WorkerService/GetStatus", b"")
    found = proto.GetStatusResponse.FromString(data).device_attributes
    assert [device.name for device in found][:1] == ["/job:localhost/replica:0/task:0/device:CPU:0"]


def test_missing_methods_are_unimplemented(client):
    path = "/tensorflow.WorkerService/RecvBuf"
    code, message = status_of(lambda: client.raw(path, b""))
    assert (code, "RecvBuf" in message) == ("UNIMPLEMENTED", True)
    eager = "/tensorflow.eager.EagerService/CreateContext"
    assert status_of(lambda: client.raw(eager, b""))[0] == "UNIMPLEMENTED"


@pytest.mark.parametrize("name", MASTER_METHODS)
def test_bytes_that_are_no_message_are_an_invalid_argument(client, name):
    code, message = status_of(lambda: client.raw(f"/tensorflow.MasterService/{name}", b"\xff" * 7))
    assert code == "INVALID_ARGUMENT"
    assert f"{name}Request" in message


@pytest.mark.parametrize("name", [name for name in MASTER_METHODS if name != "Reset"])
def test_mutated_messages_are_answered(client, name):
    """The server returns an answer or typed status to any bytes, and continues."""
    handle = client.create(ARITHMETIC)
    random_bytes = random.Random(name)
    whole = _request(client, name, handle).SerializeToString()
    for _ in range(40):
        data = bytearray(whole)
        for _ in range(random_bytes.randint(1, 4)):
            data[random_bytes.randrange(len(data))] = random_bytes.randrange(256)
        data = data[: random_bytes.choice([len(data), random_bytes.randrange(len(data))])]
        try:
            client.raw(f"/tensorflow.MasterService/{name}", bytes(data))
        except grpc.RpcError as error:
            assert error.code().name in TYPED, error  # noqa: PT017 - both ways are right
    survivor = client.create(ARITHMETIC)
    assert client.run(survivor, ["y:0"], {"x:0": [1.0, 2.0]}) == [[1, 4]]


def _request(client: MasterClient, name: str, handle: str):
    request = getattr(proto, f"{name}Request")()
    if name == "RunStep":
        return client.run_request(handle, ["y:0"], {"x:0": [1.0, 2.0]})
    if name == "RunCallable":
        request.feed.add(dtype=1).float_val.append(1)
    elif name == "MakeCallable":
        request.options.feed.append("x:0")
        request.options.fetch.append("y:0")
    elif name == "PartialRunSetup":
        request.feed.append("x:0")
        request.fetch.append("y:0")
    elif name in {"CreateSession", "ExtendSession"}:
        request.graph_def.CopyFrom(ARITHMETIC)
    if "session_handle" in request.DESCRIPTOR.fields_by_name:
        request.session_handle = handle
    return request


def test_a_long_message_is_cut(client):
    handle = client.create(ARITHMETIC)
    request = client.run_request(handle, ["n" * 100_000 + ":0"])
    code, message = status_of(lambda: client.call("RunStep", request))
    assert code in {"NOT_FOUND", "INVALID_ARGUMENT"}
    assert len(message) <= 3000


def test_large_tensors_pass_both_ways(client):
    handle = client.create(ARITHMETIC)
    value = [float(n % 7) for n in range(2)]
    big = client.run_request(handle, ["y:0"], {"x:0": value})
    big.feed.add(name="unknown", tensor=proto.TensorProto(dtype=1, tensor_content=bytes(1 << 24)))
    assert status_of(lambda: client.call("RunStep", big))[0] == "INVALID_ARGUMENT"


def test_waiting_steps_do_not_block_others(client):
    handle = client.create(QUEUES)
    waiting = [client.future("RunStep", client.run_request(handle, ["wait:0"])) for _ in range(50)]
    for _ in waiting:
        client.run(handle, ["has_started:0"])
    assert not any(future.done() for future in waiting)
    for _ in waiting:
        client.run(handle, targets=["go_on"])
    assert all(future.result().tensor[0].name == "wait:0" for future in waiting)


def test_stop_with_grace_lets_a_step_end(server, client):
    handle = client.create(QUEUES)
    waiting = client.future("RunStep", client.run_request(handle, ["wait:0"]))
    client.run(handle, ["has_started:0"])
    goes_on = client.future("RunStep", client.run_request(handle, ["has_started:0"]))
    client.run(handle, targets=["start"])
    goes_on.result()
    stopper = threading.Thread(target=server.stop, args=[TIMEOUT])
    last = client.future("RunStep", client.run_request(handle, targets=["go_on"]))
    last.result()
    stopper.start()
    assert waiting.result().tensor[0].name == "wait:0"
    stopper.join(TIMEOUT)
    assert not stopper.is_alive()
    assert status_of(lambda: client.run(handle, ["one:0"]))[0] == "UNAVAILABLE"


def test_stop_without_grace_cancels_steps(server, client):
    handle = client.create(QUEUES)
    waiting = client.future("RunStep", client.run_request(handle, ["wait:0"]))
    client.run(handle, ["has_started:0"])
    server.stop()
    assert status_of(waiting.result)[0] in {"CANCELLED", "UNAVAILABLE"}
