"""`OpSegment`: stateful kernels of a device by session and node, shared by executors.

Semantics: `tensorflow/core/framework/op_segment.h`. Node names of a function are unique only within
the function, so each instantiation of a function in a session has its own table.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from graphmill.errors import CancelledError
from graphmill.runtime.process.fork import fork_safe_lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.runtime.kernels.op_kernel import OpKernel
    from graphmill.runtime.resources.resource_mgr import ResourceMgr

_container_ids: Final = itertools.count()


class StatefulKernels:
    """The stateful kernels of one session's nodes on one device, or of a function's nodes.

    Threads: `_lock` guards the table; kernels are made outside it, and the first one made wins.
    """

    def __init__(self) -> None:
        self._lock = fork_safe_lock()
        self._kernels: dict[str, OpKernel] = {}
        # The underscore avoids names of users' containers, which cannot begin with one.
        self._container = f"_kernels_{next(_container_ids)}"
        self._managers: list[ResourceMgr] = []

    def private_container(self, resources: ResourceMgr) -> str:
        """Return the container of the resources that are deleted with these kernels.

        Args:
            resources: the manager that will hold the resources.
        """
        with self._lock:
            if resources not in self._managers:
                self._managers.append(resources)
        return self._container

    def find(self, node_name: str) -> OpKernel | None:
        """Return the kernel of a node; None if it has not been created."""
        with self._lock:
            return self._kernels.get(node_name)

    def find_or_create(self, node_name: str, create: Callable[[], OpKernel]) -> OpKernel:
        """Return the kernel of a node, created by `create` at its first use."""
        kernel = self.find(node_name)
        if kernel is not None:
            return kernel
        new_kernel = create()
        with self._lock:
            return self._kernels.setdefault(node_name, new_kernel)

    def clear(self) -> None:
        """Drop all kernels and the resources that are private to them."""
        with self._lock:
            self._kernels.clear()
            managers, self._managers = self._managers, []
        for resources in managers:
            resources.clear_container(self._container)


class OpSegment:
    """The stateful kernels of all sessions that hold one device.

    A session, or a graph that a worker registered for it, holds its table; removing the last hold
    drops the table.

    Threads: `_lock` guards the tables.
    """

    def __init__(self) -> None:
        self._lock = fork_safe_lock()
        self._tables: dict[str, StatefulKernels] = {}
        self._holds: dict[str, int] = {}

    def add_hold(self, session: str) -> None:
        """Keep the kernels of a session until `remove_hold` has been called as many times."""
        with self._lock:
            self._tables.setdefault(session, StatefulKernels())
            self._holds[session] = self._holds.get(session, 0) + 1

    def remove_hold(self, session: str) -> None:
        """Release one hold; with the last one the session's kernels are dropped."""
        with self._lock:
            left = self._holds.get(session, 0) - 1
            if left > 0:
                self._holds[session] = left
                return
            self._holds.pop(session, None)
            dropped = self._tables.pop(session, None)
        if dropped is not None:
            dropped.clear()

    def of_session(self, session: str) -> StatefulKernels:
        """Return the kernels of a session.

        Raises:
            CancelledError: nobody holds them, because the session was closed.
        """
        kernels = self._tables.get(session)
        if kernels is None:
            raise CancelledError(f"Session {session!r} has been closed: its kernels were deleted.")
        return kernels

    def clear(self) -> None:
        """Drop the kernels of all sessions."""
        with self._lock:
            dropped = list(self._tables.values())
            self._tables.clear()
            self._holds.clear()
        for kernels in dropped:
            kernels.clear()
