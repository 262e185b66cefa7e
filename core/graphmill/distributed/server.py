"""`Server`: a task of a cluster, which other processes reach as a session's target (clause W1).

Semantics: `tf.distribute.Server`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from graphmill import proto
from graphmill.access.policy_config import with_access
from graphmill.distributed.cluster_resolver import ClusterResolver
from graphmill.errors import InvalidArgumentError
from graphmill.plugin.host import Host, default_host
from graphmill.session.options import as_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType
    from typing import Self

    from graphmill.distributed.cluster_change import Task
    from graphmill.proto.config_pb2 import ConfigProto
    from graphmill.proto.tensorflow_server_pb2 import ServerDef


class Server:
    """The server of one task of a cluster, which accepts calls.

        with graphmill.Server() as server:
            with graphmill.Session(server.target, graph="model.pb") as session:
                print(session.run("y:0", {"x:0": [1.0, 2.0]}))  # [2. 4.]

    Args:
        cluster: the addresses of all tasks: `{"worker": ["host:port", ...], "ps": {0: "..."}}`, a
            `ClusterDef` message or its bytes, or a complete `ServerDef`; or a `ClusterResolver`,
            which determines the task, and whose changes of addresses the server follows. None for a
            single-task server on a free port of the loopback interface, with job `localhost`.
        job_name: the job of the task; may be omitted if there is only one job.
        task_index: the index of the task in the job.
        config: a `ConfigProto`, the default of the sessions.
        protocol: the name of a server plugin.
        host: where ops, kernels, devices and executors come from.
        start: whether to accept calls immediately; else call `start`.
        allow: what graphs of clients may do besides computing, such as `["fs.read:DATA"]`; see
            `graphmill.access.rules`. By default, nothing (the policy *pure*).
        trust: True lets them do everything, as for a cluster that trains and whose clients are your
            own.

    Raises:
        InvalidArgumentError: cluster, job and task contradict each other.
        NotFoundError: there is no such protocol.
        OpError: the address cannot be bound.
    """

    def __init__(
        self,
        cluster: Any = None,
        job_name: str | None = None,
        task_index: int | None = None,
        config: Any = None,
        *,
        protocol: str | None = None,
        host: Host | None = None,
        start: bool = True,
        allow: Iterable[str] | None = None,
        trust: bool | None = None,
    ) -> None:
        host = host or default_host()
        config = as_message(proto.ConfigProto, config, "config")
        if allow is not None or trust is not None:
            config = with_access(config, allow, trust)
        self._server_def = server_def_of(cluster, job_name, task_index, config, protocol)
        factory = host.servers.get(self._server_def.protocol)
        self._impl = factory.new_server(self._server_def, host)
        self._end_watch = None
        if isinstance(cluster, ClusterResolver):
            self._end_watch = self._follow(cluster)
        if start:
            self.start()

    @property
    def target(self) -> str:
        """The target of sessions on this server, such as `grpc://127.0.0.1:7001`."""
        return self._impl.target

    @property
    def server_def(self) -> ServerDef:
        """A copy of the definition of the server."""
        copied = proto.ServerDef()
        copied.CopyFrom(self._server_def)
        return copied

    def start(self) -> None:
        """Start to accept calls; a second call does nothing.

        Raises:
            OpError: the address cannot be bound.
        """
        self._impl.start()

    def stop(self, grace: float | None = None) -> None:
        """Stop accepting calls, end running ones, and free everything; a second call does nothing.

        Args:
            grace: seconds that running calls may take to finish; None to cancel them at once.
        """
        if self._end_watch is not None:
            self._end_watch()
        self._impl.stop(grace)

    def join(self) -> None:
        """Wait until another thread has stopped the server."""
        self._impl.join()

    def update_cluster(self, cluster: Any, restarted: Iterable[Task] = ()) -> None:
        """Use new addresses of the other tasks from now on.

        A server with a `ClusterResolver` does so by itself. Sessions that used a task that has
        moved or restarted fail with AbortedError or UnavailableError; new sessions reach it.

        Args:
            cluster: the addresses of all tasks, as for the constructor.
            restarted: tasks, such as `("worker", 0)`, that have a new incarnation at an unchanged
                address.

        Raises:
            InvalidArgumentError: the cluster is malformed, or lacks the task of the server.
            UnimplementedError: the protocol's addresses are fixed.
        """
        cluster_def = cluster_def_of(cluster)
        own = next((job for job in cluster_def.job if job.name == self._server_def.job_name), None)
        if own is None or self._server_def.task_index not in own.tasks:
            raise InvalidArgumentError(
                f"the new cluster has no task {self._server_def.task_index} of job "
                f"{self._server_def.job_name!r}, the task of this server"
            )
        self._impl.update_cluster(cluster_def, {task_name(*task) for task in restarted})
        self._server_def.cluster.CopyFrom(cluster_def)

    def _follow(self, resolver: ClusterResolver) -> Callable[[], None]:
        """Watch a resolver, and apply changes since the creation of the server."""
        end = resolver.watch(
            lambda change: self.update_cluster(resolver.cluster_spec(), change.tasks)
        )
        now = cluster_def_of(resolver.cluster_spec())
        if now != self._server_def.cluster:
            self.update_cluster(now)
        return end

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


_LOCAL = {"localhost": ["127.0.0.1:0"]}


def server_def_of(
    cluster: Any,
    job_name: str | None,
    task_index: int | None,
    config: ConfigProto,
    protocol: str | None = None,
) -> ServerDef:
    """Return the definition of a server, as `tf.distribute.Server` understands its arguments.

    Raises:
        InvalidArgumentError: cluster, job and task contradict each other.
    """
    server_def = proto.ServerDef()
    if isinstance(cluster, ClusterResolver):
        job_name = cluster.task_type if job_name is None else job_name
        task_index = cluster.task_id if task_index is None else task_index
        cluster = cluster.cluster_spec()
    if isinstance(cluster, proto.ServerDef):
        server_def.CopyFrom(cluster)
    else:
        server_def.cluster.CopyFrom(cluster_def_of(_LOCAL if cluster is None else cluster))
    if job_name is not None:
        server_def.job_name = job_name
    elif not server_def.job_name:
        jobs = [job.name for job in server_def.cluster.job]
        if len(jobs) != 1:
            raise InvalidArgumentError(
                f"job_name is needed: the cluster has jobs {', '.join(jobs) or 'none'}"
            )
        server_def.job_name = jobs[0]
    if task_index is not None:
        server_def.task_index = task_index
    elif not isinstance(cluster, proto.ServerDef) and len(_tasks(server_def)) > 1:
        raise InvalidArgumentError(
            f"task_index is needed: job {server_def.job_name!r} has tasks {_tasks(server_def)}"
        )
    server_def.default_session_config.MergeFrom(config)
    server_def.protocol = protocol or server_def.protocol or "grpc"
    if server_def.task_index not in _tasks(server_def):
        raise InvalidArgumentError(
            f"the cluster has no task {server_def.task_index} of job {server_def.job_name!r}; "
            "its jobs: "
            + ", ".join(
                f"{job.name} with tasks {sorted(job.tasks)}" for job in server_def.cluster.job
            )
        )
    return server_def


def cluster_def_of(cluster: Any) -> Any:
    """Convert a user's cluster description to a `ClusterDef`.

    Raises:
        InvalidArgumentError: it is not a cluster description, or an address is not a string.
    """
    if not isinstance(cluster, Mapping):
        return as_message(proto.ClusterDef, cluster, "cluster")
    cluster_def = proto.ClusterDef()
    for name, tasks in sorted(cluster.items()):
        job = cluster_def.job.add(name=name)
        if isinstance(tasks, str):
            raise InvalidArgumentError(
                f"job {name!r} of the cluster is the string {tasks!r}; expected a list of "
                "addresses, or a dict of them by task"
            )
        for index, address in _numbered(tasks):
            if not isinstance(address, str) or not isinstance(index, int):
                raise InvalidArgumentError(
                    f"task {index!r} of job {name!r} has the address {address!r}; expected "
                    "'HOST:PORT'"
                )
            job.tasks[index] = address
    return cluster_def


def task_name(job: str, index: int) -> str:
    """Return the full name of a task, `/job:worker/replica:0/task:0`."""
    return f"/job:{job}/replica:0/task:{index}"


def _numbered(tasks: Any) -> list[tuple[Any, Any]]:
    if isinstance(tasks, Mapping):
        return sorted(tasks.items())
    return list(enumerate(tasks))


def _tasks(server_def: ServerDef) -> list[int]:
    return sorted(
        index
        for job in server_def.cluster.job
        if job.name == server_def.job_name
        for index in job.tasks
    )
