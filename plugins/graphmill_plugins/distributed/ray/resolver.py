"""`RayClusterResolver`: resolve the current addresses of a cluster's tasks on Ray."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from graphmill.errors import UnavailableError
from graphmill.spi.cluster import ClusterResolver, change_between
from graphmill_plugins.distributed.ray.directory_watch import DirectoryWatch
from graphmill_plugins.distributed.ray.engine import ray_engine
from graphmill_plugins.distributed.ray.names import (
    ANSWER_SECONDS,
    find_directory,
    first_task,
    read_table,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeAlias

    from graphmill.spi.cluster import ClusterChange, ClusterSpec
    from graphmill_plugins.distributed.ray.directory import Registration, Table, Version
    from graphmill_plugins.distributed.ray.engine import Engine

    Task: TypeAlias = tuple[str, int]


class RayClusterResolver(ClusterResolver):
    """Queries the directory of a cluster from any process of the Ray cluster.

    Args:
        name: the name of the cluster.
        task_type, task_id: the task that this process is, if any.
        timeout: seconds to wait for tasks that have not registered their address, because the
            cluster is starting or its directory has restarted.
        engine: a replacement for Ray in tests.

    Raises:
        FailedPreconditionError: ray is not installed.
        NotFoundError: no such cluster is running.
        UnavailableError: Ray is not.

    Threads: any; `_lock` guards the table and the watch.
    """

    def __init__(
        self,
        name: str,
        task_type: str | None = None,
        task_id: int | None = None,
        *,
        timeout: float = 10.0,
        engine: Engine | None = None,
    ) -> None:
        super().__init__()
        self.name = name
        self._timeout = timeout
        self.task_type, self.task_id = task_type, task_id
        self._engine = engine or ray_engine()
        self._engine.connect(may_start=False)
        self._directory = find_directory(self._engine, name)
        self._lock = threading.Lock()
        self._known: dict[Task, Registration] = {}
        self._reported: dict[Task, Registration] = {}
        self._watch: DirectoryWatch | None = None
        self._num_watching = 0

    def cluster_spec(self) -> ClusterSpec:
        """Return the current addresses; for a restarting task, the latest one.

        Raises:
            UnavailableError: a task has not started within the resolver's timeout.
            DeadlineExceededError: the directory does not answer.
        """
        return _addresses(self.registrations().values())

    def registrations(self) -> dict[Task, Registration]:
        """Return the address and incarnation of each task.

        Raises:
            OpError: as for `cluster_spec`.
        """
        deadline = time.monotonic() + self._timeout
        table: Table | None = self._table()
        tasks: dict[Task, Registration] = {}
        while table is not None:
            tasks = self._merged(table)
            missing = _missing(table.jobs, tasks)
            if not missing:
                return tasks
            table = self._next_table(table.version, max(deadline - time.monotonic(), 0.0))
        raise UnavailableError(
            f"these tasks of the cluster have not started within {self._timeout:g} s: "
            f"{', '.join(missing)}"
        )

    def master(self, task_type: str | None = None, task_id: int | None = None) -> str:
        """Return the target of sessions on a task; by default the chief's, else a worker's."""
        if task_type is None and self.task_type is None:
            task_type, task_id = first_task(self._table().jobs)
        return super().master(task_type, task_id)

    def watch(self, changed: Callable[[ClusterChange], None]) -> Callable[[], None]:
        """Call `changed` when tasks move or restart; see `ClusterResolver.watch`."""
        table = self._table()
        tasks = self._merged(table)
        remove = super().watch(changed)
        with self._lock:
            self._num_watching += 1
            if self._watch is None:
                self._reported = tasks
                self._watch = DirectoryWatch(
                    self._engine, self._directory, None, table.version, self._table_changed
                )
        once = [remove]

        def end() -> None:
            if once:
                once.pop()()
                self._end_one()

        return end

    def _end_one(self) -> None:
        with self._lock:
            self._num_watching -= 1
            watch = self._watch if not self._num_watching else None
            if watch is not None:
                self._watch = None
        if watch is not None:
            watch.close()

    def _table(self) -> Table:
        return read_table(self._engine, self._directory)

    def _next_table(self, seen: Version, seconds: float) -> Table | None:
        call = self._engine.call(self._directory, "exchange", None, seen, seconds)
        table: Table | None = call.result(seconds + ANSWER_SECONDS)
        return table

    def _table_changed(self, table: Table) -> None:
        """Notify the observers of changes in a table; called in the watch's thread."""
        after = self._merged(table)
        before, self._reported = self._reported, after
        self._watchers.publish(registered_change(before, after))

    def _merged(self, table: Table) -> dict[Task, Registration]:
        """Merge a table into the last one; a restarted directory lacks some of the tasks."""
        with self._lock:
            self._known = {**self._known, **{(t.job, t.index): t for t in table.tasks}}
            return self._known


def registered_change(
    before: dict[Task, Registration], after: dict[Task, Registration]
) -> ClusterChange:
    """Return the change between two tables."""
    restarted = [task for task, registration in after.items() if before.get(task) != registration]
    return change_between(_addresses(before.values()), _addresses(after.values()), restarted)


def _missing(jobs: dict[str, int], tasks: dict[Task, Registration]) -> list[str]:
    """Return the names of the tasks that have not registered their address."""
    return [
        f"/job:{job}/task:{index}"
        for job, count in jobs.items()
        for index in range(count)
        if (job, index) not in tasks
    ]


def _addresses(tasks: Iterable[Registration]) -> ClusterSpec:
    spec: ClusterSpec = {}
    for task in sorted(tasks, key=lambda key: (key.job, key.index)):
        spec.setdefault(task.job, {})[task.index] = task.address
    return spec
