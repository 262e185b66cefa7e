"""`GraphMgr`: the graphs that masters have registered with one session of a worker (clause W3).

Semantics: `tensorflow/core/distributed_runtime/graph_mgr.cc`. TensorFlow keeps graphs until they
are deregistered or the session ends, and its masters never deregister; here, graphs that have been
idle for long are evicted if there are very many.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from graphmill.distributed.worker.registered_graph import RegisteredGraph
from graphmill.errors import AbortedError
from graphmill.runtime.process.fork import fork_safe_lock

if TYPE_CHECKING:
    from graphmill.distributed.worker.registered_graph import GraphRegistration
    from graphmill.lowering.policies.effects_policy import EffectsPolicy
    from graphmill.plugin.host import Host
    from graphmill.runtime.devices.device_mgr import DeviceMgr

WARNING_COUNT: Final = 256
"""Number of graphs above which idle graphs are dropped."""
IDLE_SECONDS: Final = 3600.0
"""Seconds since its last run after which a graph is idle."""


class GraphMgr:
    """The registered graphs of one worker session.

    Threads: `_lock` guards the table; graphs are made outside of it.

    Args:
        host: where ops, kernels and executors come from.
        devices: the devices of the session.
    """

    def __init__(self, host: Host, devices: DeviceMgr) -> None:
        self._host = host
        self._devices = devices
        self._lock = fork_safe_lock()
        self._graphs: dict[str, RegisteredGraph] = {}

    def __len__(self) -> int:
        return len(self._graphs)

    def register(self, registration: GraphRegistration, effects: EffectsPolicy) -> str:
        """Register a graph; return its handle.

        Raises:
            OpError: see `RegisteredGraph`.
        """
        graph = RegisteredGraph(registration, self._host, self._devices, effects)
        with self._lock:
            self._graphs[graph.handle] = graph
        self._drop_idle()
        return graph.handle

    def all(self) -> list[RegisteredGraph]:
        """Return the registered graphs."""
        with self._lock:
            return list(self._graphs.values())

    def acquire(self, handle: str) -> RegisteredGraph:
        """Return a graph for a step; the caller must `release` it at the end.

        Raises:
            AbortedError: it is not registered here (any more).
        """
        graph = self._graphs.get(handle)
        if graph is None or not graph.acquire():
            raise _unknown(handle)
        return graph

    def deregister(self, handle: str) -> None:
        """Deregister a graph; it is closed when its last step has ended.

        Raises:
            AbortedError: it is not registered here (any more).
        """
        with self._lock:
            graph = self._graphs.pop(handle, None)
        if graph is None:
            raise _unknown(handle)
        graph.release()

    def deregister_all(self) -> None:
        """Deregister all graphs."""
        with self._lock:
            graphs, self._graphs = self._graphs, {}
        for graph in graphs.values():
            graph.release()

    def _drop_idle(self) -> None:
        if len(self._graphs) <= WARNING_COUNT:
            return
        limit = time.monotonic() - IDLE_SECONDS
        with self._lock:
            idle = [
                graph
                for graph in self._graphs.values()
                if graph.last_used < limit and not graph.is_running
            ]
            for graph in idle:
                del self._graphs[graph.handle]
        for graph in idle:
            graph.release()


def _unknown(handle: str) -> AbortedError:
    return AbortedError(
        f"Graph handle is not found: {handle}. Possibly, this worker just restarted."
    )
