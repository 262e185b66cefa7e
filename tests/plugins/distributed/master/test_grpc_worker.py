"""A master with workers served over loopback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops, proto
from graphmill.distributed.master.cluster_session import ClusterSession
from graphmill.spi import VariantRegistry
from graphmill.testing.timeouts import within

pytest.importorskip("grpc")

from tests.plugins.distributed.worker.test_service import Task

from graphmill_plugins.distributed.master.grpc_worker import GrpcWorker

if TYPE_CHECKING:
    from collections.abc import Iterator

FAR = "/job:worker/task:1"


class Cluster:
    """Two served tasks, and sessions of a master in another process."""

    def __init__(self) -> None:
        self.tasks = [Task(0), Task(1)]
        for task in self.tasks:
            task.start(self.tasks)
        self.workers = {
            task.name: GrpcWorker(task.name, f"127.0.0.1:{task.port}", VariantRegistry("variant"))
            for task in self.tasks
        }
        self.sessions: list[ClusterSession] = []

    def session(self, graph: Any, timeout: float = 30.0) -> ClusterSession:
        host, local = graphmill.default_host(), self.tasks[0].devices
        name = self.tasks[0].name
        made = ClusterSession(host, proto.ConfigProto(), self.workers, name, local, timeout)
        self.sessions.append(made)
        made.follow(graph)
        return made

    def close(self) -> None:
        for session in self.sessions:
            session.close()
        for worker in self.workers.values():
            worker.close()
        for task in self.tasks:
            task.stop()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.close()


def run(session: ClusterSession, fetches: Any, feeds: Any = None, targets: Any = ()) -> list[Any]:
    feeds = feeds or {}
    signature = tuple(feeds), tuple(fetches), tuple(targets)
    return within(lambda: session.run(signature, list(feeds.values()), None, None), "the step")


def test_values_strings_and_variables_go_over_the_wire(cluster: Cluster) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder(graphmill.float32, name="x")
        text = graph.placeholder(graphmill.string, name="text")
        with graph.device(FAR):
            v = ops.state.variable_v2(shape=[3], dtype="float32", name="v")
            ops.state.assign(v, graph.constant(np.float32([1, 2, 3])), name="init")
            product = ops.math.mul(v, x, name="product")
            ops.string.string_join([text, text], name="twice")
        ops.math.neg(product, name="y")
    session = cluster.session(graph)
    assert run(session, [], targets=["init"]) == []
    np.testing.assert_array_equal(run(session, ["y:0"], {"x:0": 2.0})[0], [-2, -4, -6])
    assert run(session, ["twice:0"], {"text:0": b"a\0"}) == [b"a\0a\0"]
    large = np.arange(3 << 18, dtype=np.float32).reshape(-1, 3)
    found, far = run(session, ["y:0", "product:0"], {"x:0": large})
    np.testing.assert_array_equal(found, -large * [1, 2, 3])
    np.testing.assert_array_equal(far, large * [1, 2, 3])


def test_dead_tensors_go_over_the_wire(cluster: Cluster) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        p = graph.placeholder(graphmill.bool, name="p")
        x = graph.placeholder(graphmill.float32, name="x")
        switch = ops.control_flow.switch(x, p)
        with graph.device(FAR):
            yes = ops.math.square(switch.output_true)
        ops.control_flow.merge([ops.math.neg(switch.output_false), yes], name="y")
    session = cluster.session(graph)
    assert run(session, ["y:0"], {"p:0": True, "x:0": 3.0}) == [9]
    assert run(session, ["y:0"], {"p:0": False, "x:0": 3.0}) == [-3]


def test_error_names_task_and_node(cluster: Cluster) -> None:
    graph = graphmill.Graph()
    with graph.as_default(), graph.device(FAR):
        x = graph.placeholder(graphmill.float32, name="x")
        ops.array.check_numerics(x, message="no number", name="y")
    session = cluster.session(graph)
    for _ in range(3):
        with pytest.raises(errors.InvalidArgumentError, match="no number") as caught:
            run(session, ["y:0"], {"x:0": np.nan})
        assert caught.value.message.startswith(f"From {cluster.tasks[1].name}:\n")
        assert caught.value.node == "y"
    assert run(session, ["y:0"], {"x:0": 3.0}) == [3]


def test_a_task_that_is_gone_fails_steps_and_new_sessions(cluster: Cluster) -> None:
    graph = graphmill.Graph()
    with graph.as_default(), graph.device(FAR):
        ops.array.identity(graph.placeholder(graphmill.float32, name="x"), name="y")
    session = cluster.session(graph, timeout=0.5)
    assert run(session, ["y:0"], {"x:0": 2.0}) == [2]
    cluster.tasks[1].server.stop(None).wait()
    name = cluster.tasks[1].name
    with pytest.raises(errors.UnavailableError, match=f"From {name}:\n"):
        run(session, ["y:0"], {"x:0": 2.0})
    with pytest.raises(errors.DeadlineExceededError, match=name):
        cluster.session(graph, timeout=0.2)


def test_closed_connection_notifies_callers(cluster: Cluster) -> None:
    worker = cluster.workers[cluster.tasks[0].name]
    worker.close()
    outcome: list[Any] = []
    worker.get_status(proto.GetStatusRequest(), lambda *args: outcome.append(args))
    ((response, error),) = outcome
    assert response is None
    assert isinstance(error, errors.CancelledError)
