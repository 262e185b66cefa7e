"""Tasks that restart at another address: peers follow, old sessions are aborted."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import ops
from graphmill.distributed.cluster_resolver import SimpleClusterResolver
from graphmill.errors import AbortedError, UnavailableError

pytest.importorskip("grpc")

ANY = "127.0.0.1:0"


def address(server: graphmill.Server) -> str:
    return server.target.removeprefix("grpc://")


def program() -> graphmill.Graph:
    """A value that crosses from one worker to the other and back."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        with graph.device("/job:worker/task:1"):
            y = ops.math.square(x)
        with graph.device("/job:worker/task:0"):
            ops.math.add_v2(y, np.float32(1), name="z")
    return graph


class Cluster:
    """Two workers; the second can be restarted on another port."""

    def __init__(self) -> None:
        self.resolver = SimpleClusterResolver({"worker": [ANY, ANY]}, "worker", 0)
        self.first = graphmill.Server(self.resolver)
        self.second = self.new_second()

    def new_second(self) -> graphmill.Server:
        made = graphmill.Server({"worker": [address(self.first), ANY]}, "worker", 1)
        self.second = made
        self.resolver.update({"worker": [address(self.first), address(made)]})
        return made

    def run(self, session: Any, value: float = 3.0) -> float:
        return float(session.run("z:0", {"x:0": value}))


@pytest.fixture
def cluster() -> Any:
    made = Cluster()
    yield made
    made.second.stop()
    made.first.stop()


def test_a_new_session_finds_a_task_that_moved(cluster: Cluster) -> None:
    with graphmill.Session(cluster.first.target, graph=program()) as session:
        assert cluster.run(session) == 10
        cluster.second.stop()
        with pytest.raises(UnavailableError):
            cluster.run(session)
        cluster.new_second()
        with pytest.raises(AbortedError, match="task:1 was restarted at"):
            cluster.run(session)
    with graphmill.Session(cluster.first.target, graph=program()) as session:
        assert cluster.run(session) == 10


def test_task_restarted_at_same_address_is_reconnected(cluster: Cluster) -> None:
    with graphmill.Session(cluster.first.target, graph=program()) as session:
        assert cluster.run(session) == 10
        cluster.resolver.update(cluster.resolver.cluster_spec(), [("worker", 1)])
        with pytest.raises(AbortedError, match="Start a new session"):
            cluster.run(session)
    with graphmill.Session(cluster.first.target, graph=program()) as session:
        assert cluster.run(session) == 10


def test_step_waiting_for_a_moved_task_is_aborted(cluster: Cluster) -> None:
    graph = graphmill.Graph()
    with graph.as_default(), graph.device("/job:worker/task:1"):
        queue = ops.data_flow.fifo_queue_v2(component_types=["float32"], shared_name="q")
        (taken,) = ops.data_flow.queue_dequeue_v2(queue, component_types=["float32"])
        size = ops.data_flow.queue_size_v2(queue)
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            session.run(taken)
        except AbortedError as error:
            errors.append(error)

    with graphmill.Session(cluster.first.target, graph=graph) as session:
        session.run(size)
        thread = threading.Thread(target=wait)
        thread.start()
        second = cluster.second
        cluster.new_second()
        thread.join(30)
        assert [type(error) for error in errors] == [AbortedError]
        second.stop()
