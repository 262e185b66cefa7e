"""`TaskServer`: a task's actor, with the gRPC server in its process.

Its methods only control it: sessions use gRPC.
"""

from __future__ import annotations

import os
import secrets
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from graphmill.errors import DeadlineExceededError
from graphmill.spi.cluster import Server
from graphmill.spi.protos import proto
from graphmill_plugins.distributed.ray.directory import Registration
from graphmill_plugins.distributed.ray.directory_watch import DirectoryWatch
from graphmill_plugins.distributed.ray.names import find_directory

if TYPE_CHECKING:
    from graphmill.spi.cluster import ClusterSpec
    from graphmill_plugins.distributed.ray.directory import Table, Version
    from graphmill_plugins.distributed.ray.engine import Engine

NOT_STARTED: Final = "0.0.0.0:0"
"""The address of a task that has not registered one; no connection to it succeeds."""
_HEALTH_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class TaskDefinition:
    """The arguments with which a task's actor is started and restarted.

    Attributes:
        cluster: the name of the cluster.
        jobs: the number of tasks of each job.
        job, index: the task.
        config: the serialized default config of sessions.
        port: its port; 0 for a free one, which changes with each restart.
        others: the addresses of tasks outside of Ray.
    """

    cluster: str
    jobs: dict[str, int]
    job: str
    index: int
    config: bytes = b""
    port: int = 0
    others: ClusterSpec = field(default_factory=dict)


class TaskServer:
    """The server of one task inside an actor.

    Args:
        definition: the definition of the task.
        engine: finds the directory.

    Raises:
        OpError: the address cannot be bound.

    Threads: Ray calls the methods from several; `_changed` guards the table of addresses.
    """

    def __init__(self, definition: TaskDefinition, engine: Engine) -> None:
        self._definition, self._engine = definition, engine
        self._changed = threading.Condition()
        self._tasks: dict[tuple[str, int], Registration] = {}
        self._version: Version = (0, 0)
        own = (definition.job, definition.index)
        own_address = f"{engine.node_host()}:{definition.port}"
        spec = _spec(definition, {own: Registration(*own, own_address, 0)})
        config = proto.ConfigProto.FromString(definition.config)
        self._server = Server(spec, *own, config)
        address = self._server.target.removeprefix("grpc://")
        self._mine = Registration(*own, address, secrets.randbits(63))
        directory = find_directory(engine, definition.cluster)
        self._watch = DirectoryWatch(engine, directory, self._mine, None, self._table_changed)

    def address(self) -> str:
        """Return the address of the server, `HOST:PORT`."""
        return self._mine.address

    def incarnation(self) -> int:
        """Return the incarnation of the task, which changes with each restart."""
        return self._mine.incarnation

    def pid(self) -> int:
        """Return the process id."""
        return os.getpid()

    def wait_ready(self, seconds: float, version: Version) -> None:
        """Return when this task knows the addresses of all others.

        Args:
            seconds: how long to wait.
            version: the minimum version of the directory's table.

        Raises:
            DeadlineExceededError: it does not know them in that time; the error names the missing
                tasks.
        """
        with self._changed:
            if not self._changed.wait_for(
                lambda: not self._missing() and self._version >= version, seconds
            ):
                missing = ", ".join(self._missing()) or "tasks that have moved"
                raise DeadlineExceededError(
                    f"/job:{self._mine.job}/task:{self._mine.index} has waited "
                    f"{seconds:g} s for the addresses of: {missing}"
                )

    def health(self) -> str:
        """Query the server's health service; return SERVING or NOT_SERVING."""
        import grpc
        from grpc_health.v1 import health_pb2, health_pb2_grpc

        options = (("grpc.enable_http_proxy", 0),)
        with grpc.insecure_channel(self._mine.address, options) as channel:
            try:
                answer = health_pb2_grpc.HealthStub(channel).Check(
                    health_pb2.HealthCheckRequest(), timeout=_HEALTH_SECONDS
                )
            except grpc.RpcError:
                return "NOT_SERVING"
        name: str = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
        return name

    def drain(self, grace: float | None) -> None:
        """Stop accepting calls, and return when running calls have ended; the actor stays.

        Args:
            grace: seconds that running calls may take to finish; None to cancel them at once.
        """
        self._server.stop(grace)

    def stop(self, grace: float | None) -> None:
        """Drain, and leave the directory, before the actor's process ends.

        Args:
            grace: as of `drain`.
        """
        self._watch.close()
        self.drain(grace)

    def _table_changed(self, table: Table) -> None:
        """Use new addresses of the other tasks; called in the watch's thread."""
        own = (self._mine.job, self._mine.index)
        with self._changed:
            before = self._tasks
            registered = {(task.job, task.index): task for task in table.tasks}
            self._tasks = {**before, **registered, own: self._mine}
            restarted = [task for task, now in self._tasks.items() if before.get(task) != now]
        others = [task for task in restarted if task != own]
        self._server.update_cluster(_spec(self._definition, self._tasks), others)
        with self._changed:
            self._version = table.version
            self._changed.notify_all()

    def _missing(self) -> list[str]:
        return [
            f"/job:{job}/task:{index}"
            for job, count in self._definition.jobs.items()
            for index in range(count)
            if (job, index) not in self._tasks
        ]


def _spec(definition: TaskDefinition, tasks: dict[tuple[str, int], Registration]) -> ClusterSpec:
    """Return the addresses of all tasks, as far as they are known."""
    spec = {job: dict(addresses) for job, addresses in definition.others.items()}
    for job, count in definition.jobs.items():
        spec.setdefault(job, {}).update(dict.fromkeys(range(count), NOT_STARTED))
    for (job, index), task in tasks.items():
        spec[job][index] = task.address
    return spec
