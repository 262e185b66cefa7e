"""`ClusterWorkers`: a master's connections to the workers of all tasks."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from graphmill.spi.cluster import LocalWorker
from graphmill_plugins.distributed.credentials import credentials_of
from graphmill_plugins.distributed.heartbeat import silence_seconds
from graphmill_plugins.distributed.master.grpc_worker import GrpcWorker
from graphmill_plugins.distributed.task_addresses import addresses_of, lost_task, task_name
from graphmill_plugins.distributed.transfer.settings import TransferSettings

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from graphmill.spi import VariantRegistry
    from graphmill.spi.cluster import Worker, WorkerInterface
    from graphmill.spi.protos import proto


class ClusterWorkers:
    """The workers of a cluster, connected when the first session needs them.

    Args:
        server_def: the cluster, and the task that this process is.
        worker: the worker of this process, which is called directly.
        variants: the codecs of variants.

    Attributes:
        master_task: the name of this process's task, `/job:worker/replica:0/task:0`.

    Threads: `_lock` guards the creation of the table.
    """

    def __init__(
        self, server_def: proto.ServerDef, worker: Worker, variants: VariantRegistry
    ) -> None:
        self.master_task = task_name(server_def.job_name, server_def.task_index)
        self._addresses = addresses_of(server_def.cluster)
        self._silence = silence_seconds(server_def.default_session_config)
        self._credentials = credentials_of(server_def.default_session_config, is_server=True)
        self._may_be_local = TransferSettings.of(server_def.default_session_config).local_socket
        self._variants = variants
        self._own = LocalWorker(worker, outputs_may_alias=True)
        self._lock = threading.Lock()
        self._others: dict[str, GrpcWorker] | None = None

    @property
    def has_others(self) -> bool:
        """Whether the cluster has other tasks."""
        return len(self._addresses) > 1

    def by_task(self) -> Mapping[str, WorkerInterface]:
        """Return the workers by task name, that of this process first."""
        with self._lock:
            if self._others is None:
                self._others = {
                    task: self._new_worker(task)
                    for task in self._addresses
                    if task != self.master_task
                }
            others = [task for task in self._addresses if task != self.master_task]
            return {self.master_task: self._own, **{task: self._others[task] for task in others}}

    def addresses(self) -> Mapping[str, str]:
        """Return the addresses of all tasks by name."""
        return self._addresses

    def last_heartbeats(self) -> Mapping[str, float | None]:
        """Return the time of each other task's last message, by `time.time`; None for none."""
        with self._lock:
            others = dict(self._others or {})
        return {
            task: others[task].last_heartbeat if task in others else None
            for task in self._addresses
            if task != self.master_task
        }

    def update(self, cluster: proto.ClusterDef, restarted: Collection[str]) -> None:
        """Use new addresses of the tasks from now on.

        Sessions that use a task that has moved or restarted get AbortedError; new sessions reach
        it.
        """
        addresses = addresses_of(cluster)
        with self._lock:
            before, self._addresses = self._addresses, addresses
            others = self._others or {}
            lost = {
                task: others.pop(task)
                for task in list(others)
                if task in restarted or addresses.get(task) != before[task]
            }
            if self._others is not None:
                new = set(addresses) - {self.master_task, *others}
                others.update({task: self._new_worker(task) for task in new})
        for task, worker in lost.items():
            worker.close(lost_task(task, addresses.get(task)))

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            others, self._others = self._others, None
        for worker in (others or {}).values():
            worker.close()

    def _new_worker(self, task: str) -> GrpcWorker:
        return GrpcWorker(
            task,
            self._addresses[task],
            self._variants,
            self._silence,
            self._credentials,
            may_be_local=self._may_be_local,
        )
