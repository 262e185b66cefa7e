"""`ClusterTasks`: the workers of a session, their devices, and calls to all of them.

Semantics: `DeviceFinder` in `tensorflow/core/distributed_runtime/master.cc`, and
`CreateWorkerSessions` in `master_session.cc`.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from graphmill import proto
from graphmill.distributed.master.registered_signature import finish
from graphmill.distributed.master.remote_device import attributes_of
from graphmill.distributed.master.task_calls import TaskCalls
from graphmill.errors import InvalidArgumentError
from graphmill.graph.device_name import parse_device_name
from graphmill.graph.transfer_ops import signed_incarnation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from graphmill.distributed.master.worker_interface import Done, Withdraw, WorkerInterface
    from graphmill.proto.config_pb2 import ConfigProto
    from graphmill.runtime.devices.device import DeviceAttributes


class ClusterTasks:
    """The tasks that one session uses.

    Args:
        session_handle: the handle of the session on its workers.
        workers: all workers of the cluster by task name, `/job:worker/replica:0/task:0`.
        master_task: the name of the master's task.
        config: its `device_filters` select the other tasks; empty for all.
        timeout: the timeout in seconds of calls that do not run steps.

    Attributes:
        workers: the selected workers.

    Raises:
        InvalidArgumentError: a filter is malformed, or the master has no worker.
    """

    def __init__(
        self,
        session_handle: str,
        workers: Mapping[str, WorkerInterface],
        master_task: str,
        config: ConfigProto,
        timeout: float,
    ) -> None:
        if master_task not in workers:
            raise InvalidArgumentError(
                f"the master's task {master_task} has no worker; available: {', '.join(workers)}"
            )
        filters = [parse_device_name(text) for text in config.device_filters]
        self.workers = {
            task: worker
            for task, worker in workers.items()
            if not filters
            or task == master_task
            or any(pattern.matches(parse_device_name(task)) for pattern in filters)
        }
        self.master_task = master_task
        self._session_handle = session_handle
        self._timeout = timeout
        self._has_sessions = False
        # Each task gets the devices of all: that grows with the square of their number.
        self._sends_devices = (
            config.share_cluster_devices_in_session
            or config.experimental.share_cluster_devices_in_session
        )

    def devices(self) -> list[DeviceAttributes]:
        """Ask all tasks for their devices.

        Raises:
            DeadlineExceededError: a task has not answered in time; names it.
            OpError: one cannot be reached; names it.
        """
        request = proto.GetStatusRequest()
        responses = self._call(
            lambda worker, done: worker.get_status(request, done), "list the devices of all tasks"
        )
        return [
            attributes_of(a) for task in self.workers for a in responses[task].device_attributes
        ]

    def create_sessions(self, devices: Sequence[DeviceAttributes], *, is_isolated: bool) -> None:
        """Create the session on all tasks; if one fails, delete those of the others.

        Args:
            devices: the devices of all tasks.
            is_isolated: whether the session has resources of its own.

        Raises:
            OpError: as for `devices`.
        """
        own = [a.incarnation for a in devices if a.name.startswith(self.master_task + "/")]
        request = proto.CreateWorkerSessionRequest(
            session_handle=self._session_handle,
            isolate_session_state=is_isolated,
            cluster_device_attributes=[a.to_proto() for a in devices]
            if self._sends_devices
            else (),
            master_task=self.master_task,
            master_incarnation=signed_incarnation(own[0]) if own else 0,
        )
        self._has_sessions = True
        try:
            self._call(
                lambda worker, done: worker.create_worker_session(request, done),
                "start a session on all tasks",
            )
        except BaseException:
            self.delete_sessions()
            raise

    def delete_sessions(self) -> None:
        """End the session on all tasks, in bounded time.

        A task that does not answer is logged: it has lost the session, or drops it when it learns
        of the master's new incarnation.
        """
        if not self._has_sessions:
            return
        self._has_sessions = False
        request = proto.DeleteWorkerSessionRequest(session_handle=self._session_handle)
        calls = self._start(lambda worker, done: worker.delete_worker_session(request, done))
        calls.wait(self._timeout)
        late = calls.pending
        calls.withdraw()
        problems = {task: error.message for task, error in calls.errors.items()}
        problems.update(dict.fromkeys(late, f"no answer within {self._timeout:g} s"))
        for task, problem in problems.items():
            logging.getLogger("graphmill.distributed").warning(
                "session %s was closed, but %s could not be notified: %s",
                self._session_handle,
                task,
                problem,
            )

    def clear_containers(self, containers: Iterable[str]) -> None:
        """Clear resource containers on all tasks.

        Raises:
            OpError: as for `devices`.
        """
        request = proto.CleanupAllRequest(container=list(containers))
        self._call(
            lambda worker, done: worker.cleanup_all(request, done), "clear containers on all tasks"
        )

    def _call(
        self, begin: Callable[[WorkerInterface, Done], Withdraw], what: str
    ) -> dict[str, Any]:
        calls = self._start(begin)
        finish(calls, self._timeout, what)
        return calls.results

    def _start(self, begin: Callable[[WorkerInterface, Done], Withdraw]) -> TaskCalls:
        calls = TaskCalls()
        for task, worker in self.workers.items():
            calls.start(task, partial(begin, worker))
        return calls
