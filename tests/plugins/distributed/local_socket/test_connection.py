"""Connections to tasks of this machine change from gRPC to the local socket, and back."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, proto
from graphmill.runtime.rendezvous import RendezvousKey
from graphmill.testing.timeouts import TIMEOUT

pytest.importorskip("grpc")

from tests.plugins.distributed.transfer.test_negotiation import Cluster, there_and_back

from graphmill_plugins.distributed.connection import Connection
from graphmill_plugins.distributed.transfer.host_identity import host_identity
from graphmill_plugins.distributed.wire.methods import LOCAL_ADDRESS_PATH, WORKER_METHODS

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(not host_identity(), reason="no local sockets on this system")


def config(**settings: bool) -> Any:
    result = graphmill.ConfigProto()
    entry = result.graph_options.rewrite_options.custom_optimizers.add(name="distributed")
    for name, value in settings.items():
        entry.parameter_map[name].b = value
    return result


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> queue.Queue[Connection]:
    """The connections that have been connected over a local socket."""
    connections: queue.Queue[Connection] = queue.Queue()
    connect = Connection._connect_locally

    def noted(self: Connection, *arguments: Any) -> None:
        connect(self, *arguments)
        connections.put(self)

    monkeypatch.setattr(Connection, "_connect_locally", noted)
    return connections


@pytest.fixture
def server() -> Iterator[Any]:
    with graphmill.Server(config=config()) as server:
        yield server


def connection_to(server: Any, **options: Any) -> Connection:
    address = server.target.removeprefix("grpc://")
    return Connection("the task", address, WORKER_METHODS.values(), 15.0, **options)


def get_status(connection: Connection) -> Any:
    outcomes: queue.Queue[Any] = queue.Queue()
    connection.start("GetStatus", b"", lambda *outcome: outcomes.put(outcome))
    return outcomes.get(timeout=TIMEOUT)


def test_calls_change_to_the_local_socket(server: Any, connected: Any) -> None:
    connection = connection_to(server, may_be_local=True)
    first, _ = get_status(connection)
    assert connected.get(timeout=TIMEOUT) is connection
    methods, connection._channel.methods = connection._channel.methods, {}
    second, error = get_status(connection)  # not over gRPC
    connection._channel.methods = methods
    assert error is None
    assert proto.GetStatusResponse.FromString(second) == proto.GetStatusResponse.FromString(first)
    connection.close()
    _, error = get_status(connection)
    assert isinstance(error, errors.CancelledError)


def test_errors_are_those_of_grpc(server: Any, connected: Any) -> None:
    connection = connection_to(server, may_be_local=True)
    request = proto.DeregisterGraphRequest(session_handle="none", graph_handle="g")
    failures = []
    for _ in range(2):
        outcomes: queue.Queue[Any] = queue.Queue()
        data = request.SerializeToString()
        connection.start("DeregisterGraph", data, lambda *outcome, o=outcomes: o.put(outcome))
        failures.append(outcomes.get(timeout=TIMEOUT)[1])
        if len(failures) == 1:
            get_status(connection)
            connected.get(timeout=TIMEOUT)
    by_grpc, by_socket = failures
    assert type(by_grpc) is type(by_socket)
    assert by_grpc.message == by_socket.message
    connection.close()


def test_a_lost_socket_is_replaced(server: Any, connected: Any) -> None:
    connection = connection_to(server, may_be_local=True)
    get_status(connection)
    connected.get(timeout=TIMEOUT)
    local = connection._channel.local
    assert local is not None
    local.close()
    local.join()
    assert connection._channel.local is None
    assert get_status(connection)[1] is None  # over gRPC
    assert connection._channel.local_address is None
    connection.close()


@pytest.mark.parametrize("case", ["server", "client", "address"])
def test_calls_stay_on_grpc(case: str, connected: Any, monkeypatch: Any) -> None:
    settings = {"transfer_local_socket": case != "server"}
    with graphmill.Server(config=config(**settings)) as server:
        connection = connection_to(server, may_be_local=case != "client")
        asked = threading.Event()
        address = connection._channel.local_address
        assert (address is None) == (case == "client")
        if case == "address":  # as TensorFlow's servers
            unknown = LOCAL_ADDRESS_PATH + "OfTensorFlow"
            connection._channel.local_address = connection._channel.channel.unary_unary(unknown)
        ask = connection._ask_local_address

        def noted(channel: Any) -> None:
            ask(channel)
            asked.set()

        monkeypatch.setattr(connection, "_ask_local_address", noted)
        for _ in range(3):
            assert get_status(connection)[1] is None
        assert asked.is_set() == (case != "client")
        assert connection._channel.local is None
        assert connected.empty()
        connection.close()


def test_a_silent_task_loses_its_socket(server: Any, connected: Any) -> None:
    connection = connection_to(server, may_be_local=True)
    answer, _ = get_status(connection)
    connected.get(timeout=TIMEOUT)
    local = connection._channel.local
    outcomes: queue.Queue[Any] = queue.Queue()
    device = proto.GetStatusResponse.FromString(answer).device_attributes[0]
    key = str(RendezvousKey(device.name, device.incarnation, device.name, "never"))
    request = proto.RecvTensorRequest(step_id=5, rendezvous_key=key).SerializeToString()
    connection.start("RecvTensor", request, lambda *outcome: outcomes.put(outcome))
    connection._give_up()
    _, error = outcomes.get(timeout=TIMEOUT)
    assert isinstance(error, errors.UnavailableError)
    assert "has been silent" in error.message
    assert local is not connection._channel.local
    assert get_status(connection)[1] is None
    connection.close()


def test_steps_of_two_tasks_use_local_sockets(connected: Any) -> None:
    cluster = Cluster({}, {})
    x = np.ones(3, np.float32)
    try:
        with graphmill.Session(cluster.servers[0].target, graph=there_and_back()) as session:
            for _ in range(3):
                np.testing.assert_array_equal(session.run("c:0", {"x:0": x}), -2 * (x + 1))
            num_connections = 3  # master to worker, and one of each worker to the other
            for _ in range(num_connections):
                connected.get(timeout=TIMEOUT)
            np.testing.assert_array_equal(session.run("c:0", {"x:0": x}), -2 * (x + 1))
            with pytest.raises(errors.InvalidArgumentError, match="nan!"):
                session.run("d:0", {"x:0": np.full(3, np.nan, np.float32)})
            np.testing.assert_array_equal(session.run("c:0", {"x:0": x}), -2 * (x + 1))
    finally:
        cluster.close()
