"""`ClusterWorkers`: the workers of all tasks of a cluster, as a master calls them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from graphmill.spi.cluster import LocalWorker
from graphmill_plugins.distributed.master.grpc_worker import GrpcWorker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.spi.cluster import Worker, WorkerInterface
    from graphmill.spi.protos import proto


class ClusterWorkers:
    """The workers of a cluster, connected to when the first session needs them.

    Args:
        server_def: the cluster, and which task of it this process is.
        worker: the worker of this process, which is called without a protocol.

    Attributes:
        master_task: the name of this process's task, `/job:worker/replica:0/task:0`.

    Threads: `_lock` guards the making of the table.
    """

    def __init__(self, server_def: proto.ServerDef, worker: Worker) -> None:
        self.master_task = _name(server_def.job_name, server_def.task_index)
        self._addresses = {
            _name(job.name, index): job.tasks[index]
            for job in server_def.cluster.job
            for index in sorted(job.tasks)
        }
        self._own = LocalWorker(worker)
        self._lock = threading.Lock()
        self._others: dict[str, GrpcWorker] | None = None

    @property
    def has_others(self) -> bool:
        """Whether the cluster has other tasks than this one."""
        return len(self._addresses) > 1

    def by_task(self) -> Mapping[str, WorkerInterface]:
        """Return the workers by the names of their tasks; this process's first."""
        with self._lock:
            if self._others is None:
                self._others = {
                    task: GrpcWorker(task, address)
                    for task, address in self._addresses.items()
                    if task != self.master_task
                }
            return {self.master_task: self._own, **self._others}

    def close(self) -> None:
        """End all connections."""
        with self._lock:
            others, self._others = self._others, None
        for worker in (others or {}).values():
            worker.close()


def _name(job: str, index: int) -> str:
    return f"/job:{job}/replica:0/task:{index}"
