"""`start_cluster`: start a cluster on Ray with one restartable actor per task."""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import DeadlineExceededError, InvalidArgumentError, NotFoundError, OpError
from graphmill.spi.cluster import SimpleClusterResolver, as_message
from graphmill.spi.protos import proto
from graphmill_plugins.distributed.ray.directory import Directory
from graphmill_plugins.distributed.ray.engine import ActorOptions, Engine, ray_engine
from graphmill_plugins.distributed.ray.names import (
    DIRECTORY,
    find_directory,
    namespace_of,
    read_table,
    target_of,
    task_actor,
)
from graphmill_plugins.distributed.ray.resolver import RayClusterResolver
from graphmill_plugins.distributed.ray.task_server import TaskDefinition, TaskServer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self

    from graphmill.spi.cluster import ClusterChange, ClusterSpec
    from graphmill_plugins.distributed.ray.engine import PendingCall

AWAY: Final = "AWAY"
_DIRECTORY_CALLS: Final = 20_000
"""Maximum number of tasks and clients that can wait for changes at the same time."""
_CONTROL_SECONDS: Final = 10.0
"""Seconds that an actor may take for a call that should return immediately."""
_MAX_PORT: Final = 65535

_logger = logging.getLogger("graphmill.distributed")


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """The status of a task.

    Attributes:
        job, index: the task.
        address: its current or latest address.
        incarnation: the number that identifies its process.
        health: SERVING, NOT_SERVING, or AWAY while its actor restarts or after that failed.
    """

    job: str
    index: int
    address: str
    incarnation: int
    health: str


def start_cluster(
    tasks: int | Mapping[str, int],
    *,
    name: str = "graphmill",
    resources: Mapping[str, float] | None = None,
    strategy: str = "PACK",
    config: Any = None,
    port_base: int | None = None,
    others: Mapping[str, Any] | None = None,
    is_detached: bool = False,
    runtime_env: Mapping[str, Any] | None = None,
    timeout: float = 120.0,
    engine: Engine | None = None,
) -> RayCluster:
    """Start a cluster on Ray, and return when all its tasks accept calls.

    Ray is started on this machine if this process is not connected to it, and RAY_ADDRESS is not
    set.

    Args:
        tasks: the number of workers, or of the tasks of each job, as `{"worker": 4, "ps": 1}`.
        name: the name of the cluster: `ray-cluster://NAME` is the target of sessions.
        resources: the Ray resources of each task; by default one CPU.
        strategy: that of the placement group: PACK, SPREAD, STRICT_PACK or STRICT_SPREAD.
        config: the default `ConfigProto` of sessions.
        port_base: the port of the first task; the next task has the next port. By default each task
            has a free port, which changes with each restart; TensorFlow's masters do not follow
            that.
        others: the addresses of tasks outside of Ray, such as TensorFlow's servers: `{"chief":
            ["host:2222"]}`, or by number, `{"worker": {4: "host:2222"}}`.
        is_detached: whether it outlives this process; `RayCluster.connect(name).stop()` ends it.
        runtime_env: Ray's description of the environment of the tasks' processes.
        timeout: seconds to wait for resources, and again for the tasks.
        engine: a replacement for Ray in tests.

    Raises:
        FailedPreconditionError: ray is not installed.
        InvalidArgumentError: there are no tasks, or the name or the ports are malformed.
        AlreadyExistsError: a cluster of that name is running.
        ResourceExhaustedError: Ray lacks the resources.
        OpError: a task could not be started.
    """
    jobs = _jobs(tasks)
    namespace = namespace_of(name)
    _check_ports(port_base, sum(jobs.values()))
    elsewhere = _elsewhere(others, jobs)
    default = as_message(proto.ConfigProto, config, "config").SerializeToString()
    per_task = {"CPU": 1.0} if resources is None else dict(resources)
    engine = engine or ray_engine()
    with ExitStack() as undo:
        has_connected = engine.connect(may_start=True)
        if has_connected:
            undo.callback(engine.disconnect)
        cluster = RayCluster(engine, name, jobs, ends_ray=has_connected and not is_detached)
        options = ActorOptions(
            DIRECTORY,
            namespace,
            max_concurrency=_DIRECTORY_CALLS,
            repeats_calls=True,
            is_detached=is_detached,
        )
        # This call claims the name; a second one fails without having changed anything.
        cluster.own(DIRECTORY, engine.start_actor(Directory, (jobs,), options))
        undo.callback(cluster.kill)
        bundles = [per_task] * sum(jobs.values())
        placement = engine.place(namespace, bundles, strategy, timeout, is_detached=is_detached)
        numbered = [(job, index) for job, count in jobs.items() for index in range(count)]
        for bundle, (job, index) in enumerate(numbered):
            port = 0 if port_base is None else port_base + bundle
            definition = TaskDefinition(name, jobs, job, index, default, port, elsewhere)
            options = ActorOptions(
                task_actor(job, index),
                namespace,
                placement,
                bundle,
                per_task,
                is_detached=is_detached,
                runtime_env=runtime_env,
            )
            cluster.own(options.name, engine.start_actor(TaskServer, (definition, engine), options))
        cluster.wait_ready(timeout)
        undo.pop_all()
    return cluster


class RayCluster:
    """A cluster on Ray; unless detached, it ends with the object from `start_cluster`.

    Args:
        engine: calls its actors.
        name: that of the cluster.
        jobs: the number of tasks of each job.
        ends_ray: whether to stop Ray with it.

    Attributes:
        name: that of the cluster.
        jobs: how many tasks each job has.
    """

    def __init__(self, engine: Engine, name: str, jobs: dict[str, int], *, ends_ray: bool) -> None:
        self._engine, self._ends_ray = engine, ends_ray
        self.name, self.jobs = name, jobs
        self._is_stopped = False
        # Ray stops an actor when its last handle is dropped.
        self._owned: dict[str, Any] = {}

    def own(self, name: str, actor: Any) -> None:
        """Keep an actor alive."""
        self._owned[name] = actor

    @classmethod
    def connect(cls, name: str, *, engine: Engine | None = None) -> RayCluster:
        """Return a cluster that another process has started.

        Raises:
            NotFoundError: no cluster of that name is running.
            UnavailableError: Ray is not.
        """
        engine = engine or ray_engine()
        engine.connect(may_start=False)
        jobs = read_table(engine, find_directory(engine, name)).jobs
        return cls(engine, name, jobs, ends_ray=False)

    @property
    def target(self) -> str:
        """The target of sessions, which resolves to the current address of the first task."""
        return target_of(self.name)

    def resolver(
        self, task_type: str | None = None, task_id: int | None = None
    ) -> RayClusterResolver:
        """Return a new resolver of the cluster's addresses."""
        return RayClusterResolver(self.name, task_type, task_id, engine=self._engine)

    def status(self) -> list[TaskStatus]:
        """Return the status of each task."""
        registered = self.resolver().registrations()
        calls = self._call_all("health")
        statuses = []
        for job, index in self._tasks():
            where, call = registered[job, index], calls.get((job, index))
            health = AWAY if call is None else _health(call)
            statuses.append(TaskStatus(job, index, where.address, where.incarnation, health))
        return statuses

    def kill_task(self, job: str, index: int) -> None:
        """Kill the process of a task without waiting; Ray restarts it.

        Raises:
            NotFoundError: there is no such task.
        """
        self._engine.kill(self._actor(job, index), restarts=True)

    def restart(self, job: str, index: int, timeout: float = 120.0) -> None:
        """Kill the process of a task; return when it has restarted and all tasks know its address.

        Raises:
            NotFoundError: there is no such task.
            DeadlineExceededError: it has not restarted after `timeout` seconds.
        """
        has_come = threading.Event()

        def changed(change: ClusterChange) -> None:
            if (job, index) in change.tasks:
                has_come.set()

        end = self.resolver().watch(changed)
        try:
            self.kill_task(job, index)
            if not has_come.wait(timeout):
                raise DeadlineExceededError(
                    f"/job:{job}/task:{index} did not restart within {timeout:g} s"
                )
        finally:
            end()
        self.wait_ready(timeout)

    def drain(self, job: str, index: int, grace: float | None = 30.0) -> None:
        """Make a task stop accepting calls, and return when running calls have ended.

        Args:
            job, index: the task.
            grace: seconds that running calls may take to finish; None to cancel them at once.

        Raises:
            NotFoundError: there is no such task.
            OpError: its actor does not answer.
        """
        call = self._engine.call(self._actor(job, index), "drain", grace)
        call.result((grace or 0.0) + _CONTROL_SECONDS)

    def wait_ready(self, timeout: float) -> None:
        """Return when each task knows the addresses of all others; wait for restarting tasks.

        Raises:
            DeadlineExceededError: a task still does not after `timeout` seconds.
            OpError: a task could not be started.
        """
        directory = find_directory(self._engine, self.name)
        # Those that were about to register have done so after the first round, and all others know
        # of it after the second.
        for _ in range(2):
            version = read_table(self._engine, directory).version
            calls = [
                self._engine.call(
                    self._actor(*task), "wait_ready", timeout, version, outlives_restarts=True
                )
                for task in self._tasks()
            ]
            for call in calls:
                call.result(timeout + _CONTROL_SECONDS)

    def stop(self, grace: float | None = None) -> None:
        """Stop all tasks and release their resources; a second call does nothing.

        Args:
            grace: seconds that steps may take to finish; None to cancel them at once.
        """
        if self._is_stopped:
            return
        for task, call in self._call_all("stop", grace).items():
            try:
                call.result((grace or 0.0) + _CONTROL_SECONDS)
            except OpError as error:
                _logger.warning("task %s of %s was killed: %s", task, self.name, error)
        self.kill()
        if self._ends_ray:
            self._engine.disconnect()

    def kill(self) -> None:
        """Kill all processes of the cluster and release their resources."""
        self._is_stopped = True
        names = [task_actor(*task) for task in self._tasks()]
        for name in (*names, DIRECTORY):
            try:
                actor = self._engine.find_actor(name, namespace_of(self.name))
            except NotFoundError:  # it was not started, or has ended
                continue
            self._engine.kill(actor, restarts=False)
        self._owned.clear()
        self._engine.remove_placement(namespace_of(self.name))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _tasks(self) -> list[tuple[str, int]]:
        return [(job, index) for job, count in self.jobs.items() for index in range(count)]

    def _call_all(self, method: str, *args: Any) -> dict[tuple[str, int], PendingCall]:
        """Start a call of each task's actor; skip tasks that could not be restarted."""
        calls = {}
        for task in self._tasks():
            try:
                actor = self._actor(*task)
            except NotFoundError:
                continue
            calls[task] = self._engine.call(actor, method, *args)
        return calls

    def _actor(self, job: str, index: int) -> Any:
        return self._engine.find_actor(task_actor(job, index), namespace_of(self.name))


def _jobs(tasks: int | Mapping[str, int]) -> dict[str, int]:
    jobs = {"worker": tasks} if isinstance(tasks, int) else dict(tasks)
    if not jobs or any(not isinstance(count, int) or count < 1 for count in jobs.values()):
        raise InvalidArgumentError(
            f"tasks is {tasks!r}, expected the number of workers, or the number of tasks of each "
            "job, such as {'worker': 4, 'ps': 1}"
        )
    return jobs


def _elsewhere(others: Mapping[str, Any] | None, jobs: dict[str, int]) -> ClusterSpec:
    """Return the addresses of the tasks outside of Ray.

    Raises:
        InvalidArgumentError: they are malformed, or Ray starts one of them.
    """
    spec = SimpleClusterResolver(others or {}).cluster_spec()
    both = [f"/job:{job}/task:{i}" for job, n in jobs.items() for i in spec.get(job, {}) if i < n]
    if both:
        raise InvalidArgumentError(
            f"Ray starts {', '.join(both)}, which is also in `others`; choose another number"
        )
    return spec


def _check_ports(port_base: int | None, count: int) -> None:
    if port_base is not None and not 0 < port_base <= _MAX_PORT - count + 1:
        raise InvalidArgumentError(
            f"port_base is {port_base}; expected 1 to {_MAX_PORT - count + 1}, for {count} ports"
        )


def _health(call: PendingCall) -> str:
    try:
        health: str = call.result(_CONTROL_SECONDS)
    except OpError:
        return AWAY
    return health
