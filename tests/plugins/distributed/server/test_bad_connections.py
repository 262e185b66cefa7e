"""Connections that scan, freeze, flood or exceed limits, and dying clients."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops, proto
from graphmill.testing.timeouts import within

grpc = pytest.importorskip("grpc")

from tests.plugins.distributed.proxy import Proxy  # noqa: E402
from tests.plugins.distributed.served_master import (  # noqa: E402
    ARITHMETIC,
    QUEUES,
    TIMEOUT,
    MasterClient,
    status_of,
)

from graphmill_plugins.distributed.connection import Connection  # noqa: E402
from graphmill_plugins.distributed.master.master_session import MasterSession  # noqa: E402
from graphmill_plugins.distributed.wire.methods import (  # noqa: E402
    MASTER_METHODS,
    WORKER_METHODS,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.divided

SILENCE = 2.0


def impatient() -> proto.ConfigProto:
    config = proto.ConfigProto()
    settings = config.graph_options.rewrite_options.custom_optimizers.add(name="distributed")
    settings.parameter_map["silence_seconds"].f = SILENCE
    return config


@pytest.fixture
def server() -> Iterator[graphmill.Server]:
    with graphmill.Server(config=impatient()) as made:
        yield made


@pytest.fixture
def address(server: graphmill.Server) -> str:
    return server.target.removeprefix("grpc://")


@pytest.fixture
def ended_steps(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The errors of steps on masters of this process, in order."""
    found: Any = _Ended()
    whole_step = MasterSession.step

    def step(self: Any, *arguments: Any) -> Any:
        try:
            return whole_step(self, *arguments)
        except errors.OpError as error:
            found.add(error)
            raise

    monkeypatch.setattr(MasterSession, "step", step)
    return found


class _Ended:
    def __init__(self) -> None:
        self._errors: list[errors.OpError] = []
        self._there = threading.Semaphore(0)

    def add(self, error: errors.OpError) -> None:
        self._errors.append(error)
        self._there.release()

    def next(self) -> errors.OpError:
        assert self._there.acquire(timeout=TIMEOUT)
        return self._errors.pop(0)


def assert_right_answers(target: str) -> None:
    with MasterClient(target) as client:
        handle = within(lambda: client.create(ARITHMETIC), "a new session")
        assert client.run(handle, ["y:0"], {"x:0": np.float32([3, 4])}) == [[9, 16]]


HELLO = bytes.fromhex("16030100f1010000ed0303") + bytes(200)
SCANS = {
    "nothing": b"",
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "ssh": b"SSH-2.0-OpenSSH_9.6\r\n",
    "tls": HELLO,
    "preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "half a preface": b"PRI * HTT",
    "a huge frame": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 64,
    "zeros": bytes(100_000),
    "noise": random.Random(3).randbytes(100_000),
}


@pytest.mark.parametrize("data", SCANS.values(), ids=SCANS)
def test_port_scanner_does_not_affect_clients(data: bytes, server: Any, address: str) -> None:
    host, _, port = address.rpartition(":")
    scanners = [socket.create_connection((host, int(port))) for _ in range(20)]
    for scanner in scanners:
        try:
            scanner.sendall(data)
        except OSError:  # the server has had enough of it
            continue
    assert_right_answers(server.target)
    for scanner in scanners:
        scanner.close()
    assert_right_answers(server.target)


@pytest.mark.parametrize("method", [*MASTER_METHODS.values(), *WORKER_METHODS.values()])
def test_large_garbage_is_refused_with_a_type(method: Any, server: Any) -> None:
    with MasterClient(server.target) as client:
        code, text = status_of(lambda: client.raw(method.path, b"\xff" * (8 << 20)))
    assert code in ("INVALID_ARGUMENT", "UNIMPLEMENTED")
    assert len(text) <= 3000


def test_metadata_above_the_limit_of_grpc_are_refused(server: Any) -> None:
    with MasterClient(server.target) as client:
        method = client.channel.unary_unary("/tensorflow.WorkerService/GetStatus")
        with pytest.raises(grpc.RpcError) as caught:
            method(b"", metadata=(("large", "x" * (1 << 20)),), timeout=TIMEOUT)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert_right_answers(server.target)


def test_thousands_of_receives_may_wait_while_other_calls_are_answered(server: Any) -> None:
    with MasterClient(server.target) as client:
        status = proto.GetStatusResponse.FromString(
            client.raw("/tensorflow.WorkerService/GetStatus", b"")
        )
        device = status.device_attributes[0]
        receive = client.channel.unary_unary("/tensorflow.WorkerService/RecvTensor")
        key = f"{device.name};{device.incarnation:016x};{device.name};e{{}};0:0"
        waiting = [
            receive.future(
                proto.RecvTensorRequest(
                    step_id=1 + i % 7, rendezvous_key=key.format(i)
                ).SerializeToString(),
                timeout=TIMEOUT,
            )
            for i in range(2000)
        ]
        assert_right_answers(server.target)
        assert not any(call.done() for call in waiting)
        clean = client.channel.unary_unary("/tensorflow.WorkerService/CleanupGraph")
        for step in range(1, 8):
            clean(proto.CleanupGraphRequest(step_id=step).SerializeToString(), timeout=TIMEOUT)
        assert {call.code().name for call in waiting} == {"ABORTED"}
    assert_right_answers(server.target)


def test_client_reconnects_after_half_open_connection(address: str) -> None:
    with Proxy(address) as proxy:
        graph = queues()
        target = f"grpc://{proxy.address}"
        with graphmill.Session(target, graph, config=impatient()) as session:
            outcome = begin_waiting(session)
            proxy.freeze()
            with pytest.raises(errors.UnavailableError, match=f"{proxy.address}.*silent for 2 s"):
                outcome()
            assert within(lambda: session.run("y:0", {"x:0": 2}), "a new connection") == -2


def test_a_client_whose_connection_is_half_open_loses_its_step(
    address: str, ended_steps: Any
) -> None:
    with Proxy(address) as proxy, MasterClient(f"grpc://{proxy.address}") as client:
        handle = client.create(QUEUES)
        waiting = client.future("RunStep", client.run_request(handle, ["wait:0"]))
        client.run(handle, ["has_started:0"])
        proxy.freeze()
        error = ended_steps.next()
        waiting.cancel()
    assert isinstance(error, errors.AbortedError)
    assert "its client disconnected" in error.message


def test_a_half_open_connection_fails_a_receive_of_another_task(address: str) -> None:
    methods = WORKER_METHODS["GetStatus"], WORKER_METHODS["RecvTensor"]
    with Proxy(address) as proxy:
        connection = Connection("/job:worker/task:7", proxy.address, methods, SILENCE)
        # Once this is answered the connection is there, which then freezes.
        answer = answer_of(connection, "GetStatus", b"")()
        device = proto.GetStatusResponse.FromString(answer).device_attributes[0]
        name = device.name
        request = proto.RecvTensorRequest(
            step_id=5, rendezvous_key=f"{name};{device.incarnation:016x};{name};e;0:0"
        )
        receive = answer_of(connection, "RecvTensor", request.SerializeToString())
        proxy.freeze()
        with pytest.raises(errors.UnavailableError, match="/job:worker/task:7 has been silent"):
            receive()
        connection.close()


def answer_of(connection: Connection, method: str, request: bytes) -> Any:
    """Start a call; return a function that waits for its outcome."""
    outcome: list[Any] = []
    ended = threading.Event()

    def done(data: bytes | None, error: errors.OpError | None) -> None:
        outcome.append((data, error))
        ended.set()

    connection.start(method, request, done, waits=True)

    def result() -> bytes:
        assert ended.wait(TIMEOUT)
        data, error = outcome[0]
        if error is not None:
            raise error
        return bytes(data)

    return result


CLIENT = """
import sys
import graphmill
from tests.plugins.distributed.server.test_bad_connections import queues
with graphmill.Session(sys.argv[1], queues()) as session:
    session.run("wait:0", {"x:0": 1})
"""


def test_killed_client_loses_only_its_step(server: Any, ended_steps: Any) -> None:
    with graphmill.Session(server.target, queues()) as session:
        stays = begin_waiting(session)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        arguments = [sys.executable, "-c", CLIENT, server.target]
        with subprocess.Popen(arguments, env=environment) as process:
            within(lambda: session.run("has_started:0"), "the step of the process", TIMEOUT)
            process.kill()
        error = ended_steps.next()
        assert isinstance(error, errors.AbortedError)
        assert "its client disconnected" in error.message
        session.run("go_on", {"x:0": 6})
        assert stays() == 6


def queues() -> Any:
    graph, kind = graphmill.Graph(), ["float32"]
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        started = ops.data_flow.fifo_queue_v2(component_types=kind, shared_name="started")
        waiting = ops.data_flow.fifo_queue_v2(component_types=kind, shared_name="waiting")
        start = ops.data_flow.queue_enqueue_v2(started, [x])
        with graph.control_dependencies([start]):
            ops.data_flow.queue_dequeue_v2(waiting, component_types=kind, name="wait")
        ops.data_flow.queue_dequeue_v2(started, component_types=kind, name="has_started")
        ops.data_flow.queue_enqueue_v2(waiting, [x], name="go_on")
        ops.math.neg(x, name="y")
    return graph


def begin_waiting(session: Any) -> Any:
    """Start a waiting step; return a function that waits for its outcome."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(session.run("wait:0", {"x:0": 1}))
        except errors.OpError as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    within(lambda: session.run("has_started:0"), "the beginning of the step")

    def result() -> Any:
        within(thread.join, "the end of the step")
        if isinstance(outcome[0], errors.OpError):
            raise outcome[0]
        return outcome[0]

    return result
