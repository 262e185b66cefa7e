"""`WorkerSession` and `WorkerSessionMgr`: the sessions of masters on a worker.

Semantics: `tensorflow/core/distributed_runtime/worker_session.h`, `session_mgr.cc`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from graphmill.distributed.worker.graph_mgr import GraphMgr
from graphmill.errors import AbortedError, CancelledError
from graphmill.graph.device_name import task_of
from graphmill.runtime.devices.device_mgr import DeviceMgr
from graphmill.runtime.process.fork import fork_safe_lock
from graphmill.runtime.resources.session_state import SessionState
from graphmill.runtime.steps.cancellation import CancellationManager
from graphmill.session.session_devices import create_devices

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.distributed.worker.peers import Peers
    from graphmill.plugin.host import Host
    from graphmill.proto.config_pb2 import ConfigProto
    from graphmill.proto.tensorflow_server_pb2 import ServerDef


class WorkerSession:
    """One session of a master, as a worker sees it.

    Args:
        handle: the master's handle; empty for the session of masters that create none.
        host: where ops, kernels and executors come from.
        devices: the devices of the worker, or of the session.
        peers: the other tasks of its cluster.
        parent: cancelled when the worker stops.
        is_isolated: whether the devices, with their resources, are its own.

    Attributes:
        graphs: its registered graphs.
        cancellation: cancels its steps when it is deleted.
        state: the tensors that it stores between steps.
        device_names: the names of its devices.
    """

    def __init__(
        self,
        handle: str,
        host: Host,
        devices: DeviceMgr,
        peers: Peers,
        parent: CancellationManager,
        *,
        is_isolated: bool = False,
    ) -> None:
        self.handle = handle
        self.devices = devices
        self.device_names = frozenset(device.name for device in devices)
        self.peers = peers
        self.is_isolated = is_isolated
        self.graphs = GraphMgr(host, devices)
        self.cancellation = CancellationManager(parent)
        self.state = SessionState(keeps_all=True)
        for device in devices:
            device.op_segment.add_hold(handle)

    def close(self) -> None:
        """Cancel its steps, and drop its graphs and its state."""
        reason = f"the worker session {self.handle!r} was deleted by its master"
        self.cancellation.start_cancel(CancelledError(reason))
        self.cancellation.close()
        self.graphs.deregister_all()
        self.state.clear()
        for device in self.devices:
            device.op_segment.remove_hold(self.handle)
        if self.is_isolated:
            self.devices.close()


class WorkerSessionMgr:
    """The sessions of a worker.

    Threads: `_lock` guards the tables.

    Args:
        task: the name of this task, for messages.
        host: where ops, kernels, devices and executors come from.
        config: the server's configuration, with which isolated sessions create their devices.
        devices: the worker's devices.
        peers: the other tasks of the server's cluster.
        new_peers: creates the peers for a session with a cluster of its own.
    """

    def __init__(
        self,
        task: str,
        host: Host,
        config: ConfigProto,
        devices: DeviceMgr,
        peers: Peers,
        new_peers: Callable[[ServerDef], Peers],
    ) -> None:
        self._task = task
        self._host = host
        self._config = config
        self._devices = devices
        self._peers = peers
        self._new_peers = new_peers
        self._lock = fork_safe_lock()
        self.cancellation = CancellationManager()
        self._sessions: dict[str, WorkerSession] = {}
        self._masters: dict[str, tuple[int, set[str]]] = {}
        self.legacy = WorkerSession("", host, devices, peers, self.cancellation)

    def __len__(self) -> int:
        return len(self._sessions)

    def create(
        self,
        handle: str,
        server_def: ServerDef | None = None,
        *,
        isolate_session_state: bool = False,
        master_task: str = "",
        master_incarnation: int = 0,
    ) -> WorkerSession:
        """Create a session, unless it exists already, because the call may be repeated.

        Args:
            handle: the master's handle.
            server_def: its cluster, if that is not the server's.
            isolate_session_state: whether its resources are its own.
            master_task: the task of its master.
            master_incarnation: that of the master's device; sessions of earlier incarnations are
                dropped.
        """
        peers, is_isolated = self._peers, isolate_session_state
        if server_def is not None and server_def.cluster.job:
            peers, is_isolated = self._new_peers(server_def), True
        self._drop_stale_sessions(master_task, master_incarnation)
        with self._lock:
            if handle in self._sessions:
                return self._sessions[handle]
        devices = self._isolated_devices() if is_isolated else self._devices
        created = WorkerSession(
            handle, self._host, devices, peers, self.cancellation, is_isolated=is_isolated
        )
        with self._lock:
            session = self._sessions.setdefault(handle, created)
            if session is created and master_task:
                _, handles = self._masters.setdefault(master_task, (master_incarnation, set()))
                handles.add(handle)
        if session is not created:
            created.close()
        return session

    def find(self, handle: str, *, was_created: bool) -> WorkerSession:
        """Return a session; the default one for masters that create none.

        Raises:
            AbortedError: it is not, or no longer, known here.
        """
        if not was_created:
            return self.legacy
        session = self._sessions.get(handle)
        if session is None:
            raise AbortedError(
                f"Session handle is not found: {handle}. Possibly this worker "
                f'("{self._task}") just restarted.'
            )
        return session

    def delete(self, handle: str) -> None:
        """Drop a session, if it exists."""
        with self._lock:
            session = self._sessions.pop(handle, None)
            for _, handles in self._masters.values():
                handles.discard(handle)
        if session is not None:
            session.close()

    def sessions(self) -> list[WorkerSession]:
        """Return all sessions, including the default one."""
        with self._lock:
            return [self.legacy, *self._sessions.values()]

    def close(self) -> None:
        """Cancel all steps and drop all sessions."""
        self.cancellation.start_cancel(CancelledError("the worker is stopped"))
        for handle in list(self._sessions):
            self.delete(handle)
        self.legacy.close()

    def _drop_stale_sessions(self, master_task: str, incarnation: int) -> None:
        """Drop the sessions of a master that was restarted and will not delete them."""
        with self._lock:
            known, handles = self._masters.get(master_task, (incarnation, set()))
            if known == incarnation:
                return
            del self._masters[master_task]
            lost = list(handles)
        for handle in lost:
            self.delete(handle)

    def _isolated_devices(self) -> DeviceMgr:
        """Return devices with the attributes of the worker's and resources of their own."""
        prefix = task_of(next(iter(self._devices)).name)
        shared = {device.name: device.attributes for device in self._devices}
        devices = create_devices(self._host, self._config, prefix)
        for device in devices:
            same = shared[device.name]
            device.attributes = replace(device.attributes, incarnation=same.incarnation)
        return DeviceMgr(devices)
