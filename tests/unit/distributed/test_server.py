"""`Server`: its arguments, and the factory that creates it."""

from __future__ import annotations

from typing import Any

import pytest

from graphmill import Host, Server, hookimpl, proto
from graphmill.distributed.cluster_resolver import SimpleClusterResolver
from graphmill.distributed.server import server_def_of
from graphmill.errors import InvalidArgumentError, NotFoundError, UnimplementedError
from graphmill.spi.cluster import ServerFactory, ServerInterface

TWO_JOBS = {"worker": ["a:1", "b:2"], "ps": {3: "c:4"}}


def definition(cluster: Any, job: str | None = None, task: int | None = None) -> Any:
    return server_def_of(cluster, job, task, proto.ConfigProto())


def test_lists_and_dicts_number_their_tasks() -> None:
    made = definition(TWO_JOBS, "ps", 3)
    assert {job.name: dict(job.tasks) for job in made.cluster.job} == {
        "ps": {3: "c:4"},
        "worker": {0: "a:1", 1: "b:2"},
    }
    assert (made.job_name, made.task_index, made.protocol) == ("ps", 3, "grpc")


def test_server_without_a_cluster_listens_on_loopback() -> None:
    made = definition(None)
    assert [(job.name, dict(job.tasks)) for job in made.cluster.job] == [
        ("localhost", {0: "127.0.0.1:0"})
    ]


@pytest.mark.parametrize("form", [lambda m: m, lambda m: m.SerializeToString()])
def test_a_cluster_may_be_a_message_or_its_bytes(form: Any) -> None:
    cluster = definition(TWO_JOBS, "ps", 3).cluster
    assert definition(form(cluster), "worker", 1).cluster == cluster


def test_arguments_override_a_server_def() -> None:
    server_def = definition(TWO_JOBS, "worker", 1)
    assert definition(server_def) == server_def
    assert definition(server_def, "ps", 3).job_name == "ps"


@pytest.mark.parametrize(
    ("cluster", "job", "task", "message"),
    [
        (TWO_JOBS, None, 0, "job_name is needed: the cluster has jobs ps, worker"),
        (TWO_JOBS, "worker", None, "task_index is needed"),
        (TWO_JOBS, "worker", 2, "no task 2 of job 'worker'"),
        (TWO_JOBS, "chief", 0, "no task 0 of job 'chief'"),
        ({"worker": "a:1"}, "worker", 0, "expected a list of addresses"),
        ({"worker": [7001]}, "worker", 0, "expected 'HOST:PORT'"),
        ({"worker": {"0": "a:1"}}, "worker", 0, "expected 'HOST:PORT'"),
        (7, "worker", 0, "cluster"),
    ],
)
def test_mismatch_is_refused(cluster: Any, job: Any, task: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        definition(cluster, job, task)


class Recorded(ServerInterface):
    def __init__(self) -> None:
        self.calls: list[Any] = []

    @property
    def target(self) -> str:
        return "quic://here"

    def start(self) -> None:
        self.calls.append("start")

    def stop(self, grace: float | None) -> None:
        self.calls.append(("stop", grace))

    def join(self) -> None:
        self.calls.append("join")

    def update_cluster(self, cluster: Any, restarted: Any) -> None:
        spec = {job.name: dict(job.tasks) for job in cluster.job}
        self.calls.append((spec, sorted(restarted)))


class RecordingFactory(ServerFactory):
    def __init__(self) -> None:
        self.server = Recorded()

    def new_server(self, server_def: Any, host: Host) -> ServerInterface:
        self.server.calls.append(server_def.protocol)
        return self.server

    @hookimpl
    def graphmill_register_servers(self, servers: Any) -> None:
        servers.add("quic", self)


def test_the_server_of_the_protocol_is_started_and_stopped() -> None:
    factory = RecordingFactory()
    host = Host([factory], load_entry_points=False)
    with Server(protocol="quic", host=host) as server:
        assert server.target == "quic://here"
        assert server.server_def.job_name == "localhost"
    server.stop(2.0)
    server.join()
    assert factory.server.calls == ["quic", "start", ("stop", None), ("stop", 2.0), "join"]


def test_a_server_can_be_started_later() -> None:
    factory = RecordingFactory()
    Server(protocol="quic", host=Host([factory], load_entry_points=False), start=False)
    assert factory.server.calls == ["quic"]


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(NotFoundError, match="smoke"):
        Server(protocol="smoke", host=Host([], load_entry_points=False))


def test_server_follows_its_resolver() -> None:
    factory = RecordingFactory()
    host = Host([factory], load_entry_points=False)
    resolver = SimpleClusterResolver({"worker": ["a:1", "b:1"]}, "worker", 0)
    with Server(resolver, protocol="quic", host=host) as server:
        assert (server.server_def.job_name, server.server_def.task_index) == ("worker", 0)
        resolver.update({"worker": ["a:1", "b:2"]})
        assert dict(server.server_def.cluster.job[0].tasks) == {0: "a:1", 1: "b:2"}
        resolver.update({"worker": ["a:1", "b:2"]}, [("worker", 1)])
    resolver.update({"worker": ["a:1", "b:3"]})  # the server has been stopped
    task = "/job:worker/replica:0/task:1"
    assert factory.server.calls == [
        "quic",
        "start",
        ({"worker": {0: "a:1", 1: "b:2"}}, [task]),
        ({"worker": {0: "a:1", 1: "b:2"}}, [task]),
        ("stop", None),
    ]


def test_a_server_stays_in_its_cluster() -> None:
    host = Host([RecordingFactory()], load_entry_points=False)
    server = Server({"worker": ["a:1", "b:1"]}, "worker", 1, protocol="quic", host=host)
    with pytest.raises(InvalidArgumentError, match="no task 1 of job 'worker'"):
        server.update_cluster({"worker": ["a:1"]})


def test_a_protocol_may_have_fixed_addresses() -> None:
    with pytest.raises(UnimplementedError, match="cannot follow"):
        ServerInterface.update_cluster(Recorded(), proto.ClusterDef(), [])
