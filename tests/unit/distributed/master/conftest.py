"""A master with workers of this process, some of which can be silent or lost."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.distributed.worker.conftest import Cluster, task

import graphmill
from graphmill.distributed.master.cluster_session import ClusterSession
from graphmill.distributed.master.local_worker import LocalWorker
from graphmill.distributed.master.worker_interface import WorkerInterface
from graphmill.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class FaultyWorker(WorkerInterface):
    """Forwards calls to a worker unless it is lost or silent, and records requests.

    Attributes:
        is_lost: whether each call fails.
        lost_calls: names of calls that fail.
        silent: names of calls that never answer.
        asked: names of calls and their requests, in order.
        has_begun: set when a step has been passed on.
    """

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.cluster = cluster
        self.number = number
        self.is_lost = False
        self.lost_calls: set[str] = set()
        self.silent: set[str] = set()
        self.asked: list[tuple[str, Any]] = []
        self.has_begun = threading.Event()

    def requests(self, method: str) -> list[Any]:
        return [request for name, request in self.asked if name == method]

    def get_status(self, request: Any, done: Any) -> Any:
        return self._pass("get_status", request, done)

    def create_worker_session(self, request: Any, done: Any) -> Any:
        return self._pass("create_worker_session", request, done)

    def delete_worker_session(self, request: Any, done: Any) -> Any:
        return self._pass("delete_worker_session", request, done)

    def register_graph(self, request: Any, done: Any) -> Any:
        return self._pass("register_graph", request, done)

    def deregister_graph(self, request: Any, done: Any) -> Any:
        return self._pass("deregister_graph", request, done)

    def logging(self, request: Any, done: Any) -> Any:
        return self._pass("logging", request, done)

    def cleanup_graph(self, request: Any, done: Any) -> Any:
        return self._pass("cleanup_graph", request, done)

    def cleanup_all(self, request: Any, done: Any) -> Any:
        return self._pass("cleanup_all", request, done)

    def run_graph(self, session_handle: str, call: Any, done: Any) -> Any:
        withdraw = self._pass("run_graph", call, done, session_handle)
        self.has_begun.set()
        return withdraw

    def _pass(self, method: str, request: Any, done: Any, *before: Any) -> Any:
        copied = request
        if hasattr(request, "CopyFrom"):  # the master clears what is large
            copied = type(request)()
            copied.CopyFrom(request)
        self.asked.append((method, copied))
        if self.is_lost or method in self.lost_calls:
            done(None, UnavailableError("Socket closed"))
        elif method not in self.silent:
            # Found again for each call: the cluster may have restarted the worker.
            real = LocalWorker(self.cluster.workers[self.number])
            return getattr(real, method)(*before, request, done)
        return lambda: None


class Master:
    """A cluster, and a function that opens sessions on it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.workers = [FaultyWorker(cluster, n) for n in range(len(cluster.workers))]
        self.sessions: list[ClusterSession] = []

    def session(self, graph: Any, timeout: float = 30.0, **config: Any) -> ClusterSession:
        made = ClusterSession(
            self.cluster.host,
            graphmill.proto.ConfigProto(**config),
            {task(worker.number): worker for worker in self.workers},
            task(0),
            self.cluster.workers[0].devices,
            timeout,
        )
        self.sessions.append(made)
        made.follow(graph)
        return made


def run(
    session: ClusterSession,
    fetches: Any = (),
    feeds: Any = None,
    targets: Any = (),
    options: Any = None,
    metadata: Any = None,
) -> list[Any]:
    """Run a step with feeds by name."""
    feeds = feeds or {}
    signature = (tuple(feeds), tuple(fetches), tuple(targets))
    session.sync_graph()
    return session.run(signature, list(feeds.values()), options, metadata)


@pytest.fixture
def new_master() -> Iterator[Callable[..., Master]]:
    made: list[Master] = []

    def new(*args: Any, **config: Any) -> Master:
        made.append(Master(Cluster(*args, **config)))
        return made[-1]

    yield new
    for master in made:
        for session in master.sessions:
            session.close()
        master.cluster.close()


@pytest.fixture
def master(new_master: Callable[..., Master]) -> Master:
    return new_master()
