"""Queues in sessions: waiting steps hold no thread, and end with their step or session."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from graphmill import Graph, Session, dtypes, errors, ops, proto

FLOAT = dtypes.float32.enum


def queue_graph(capacity: int = 10) -> proto.GraphDef:
    """A queue q; put: x into it; many: rows of x; get: one of it; get3: three; close; size."""
    graph = proto.GraphDef()
    queue = graph.node.add(name="q", op="FIFOQueueV2")
    queue.attr["component_types"].list.type.append(FLOAT)
    queue.attr["shapes"].list.shape.add()
    queue.attr["capacity"].i = capacity
    graph.node.add(name="x", op="Placeholder").attr["dtype"].type = FLOAT
    count = graph.node.add(name="n", op="Placeholder")
    count.attr["dtype"].type = dtypes.int32.enum
    for name, op, *more in (
        ("put", "QueueEnqueueV2", "x"),
        ("many", "QueueEnqueueManyV2", "x"),
        ("get", "QueueDequeueV2"),
        ("getn", "QueueDequeueManyV2", "n"),
    ):
        node = graph.node.add(name=name, op=op, input=["q", *more])
        attr = "component_types" if "Dequeue" in op else "Tcomponents"
        node.attr[attr].list.type.append(FLOAT)
    graph.node.add(name="close", op="QueueCloseV2", input=["q"])
    graph.node.add(name="size", op="QueueSizeV2", input=["q"])
    return graph


@pytest.fixture
def session(graphmill_host):
    with Session(graph=queue_graph(), host=graphmill_host) as made:
        yield made


class Background:
    """A step in a separate thread."""

    def __init__(self, session: Session, *args: Any, **keywords: Any) -> None:
        self.result: Any = None
        self.error: Any = None
        self._thread = threading.Thread(target=self._run, args=(session, args, keywords))
        self._thread.start()

    def _run(self, session: Session, args: Any, keywords: Any) -> None:
        try:
            self.result = session.run(*args, **keywords)
        except errors.OpError as error:
            self.error = error

    def join(self) -> Background:
        self._thread.join(30)
        assert not self._thread.is_alive()
        return self


def test_a_dequeue_waits_for_another_step(session):
    waiting = Background(session, "get:0")
    session.run([], {"x:0": np.float32(4)}, targets=["put"])
    assert waiting.join().result == 4


def test_step_may_enqueue_for_its_own_dequeue(session):
    """A step may enqueue the element for which its own dequeue waits."""
    got = session.run(["get:0"], {"x:0": np.float32(4)}, targets=["put"])
    assert got == [4]


def test_a_timeout_ends_a_step_that_waits(session):
    with pytest.raises(errors.DeadlineExceededError):
        session.run("get:0", options={"timeout_in_ms": 30})
    session.run([], {"x:0": np.float32(1)}, targets=["put"])
    assert session.run("size:0") == 1, "the step that gave up takes nothing"


def test_closing_the_session_ends_a_step_that_waits(graphmill_host):
    session = Session(graph=queue_graph(), host=graphmill_host)
    waiting = Background(session, "get:0")
    session.close()
    assert isinstance(waiting.join().error, errors.CancelledError)


def test_error_in_step_cancels_queue_waits(session):
    bad = {"x:0": np.zeros(3, np.float32)}  # the queue wants scalars
    with pytest.raises(errors.InvalidArgumentError, match="Shape mismatch in tuple component 0"):
        session.run("get:0", bad, targets=["put"])
    session.run([], {"x:0": np.float32(1)}, targets=["put"])
    assert session.run("size:0") == 1


def test_closing_the_queue_ends_a_step_that_waits(session):
    waiting = Background(session, "getn:0", {"n:0": np.int32(3)})
    session.run([], targets=["close"])
    error = waiting.join().error
    assert isinstance(error, errors.OutOfRangeError)
    assert error.node == "getn"


def test_a_small_queue_carries_many_elements_in_order(graphmill_host):
    values = np.arange(100, dtype=np.float32)
    with Session(graph=queue_graph(capacity=2), host=graphmill_host) as session:
        filling = Background(session, [], {"x:0": values}, targets=["many"])
        got = [session.run("getn:0", {"n:0": np.int32(10)}) for _ in range(10)]
        filling.join()
    np.testing.assert_array_equal(np.concatenate(got), values)


def test_queued_elements_do_not_alias_feeds(session):
    fed = np.array([1, 2, 3], np.float32)
    session.run([], {"x:0": fed}, targets=["many"])
    fed[:] = 0
    np.testing.assert_array_equal(session.run("getn:0", {"n:0": np.int32(3)}), [1, 2, 3])


@pytest.mark.parametrize("executor", ["DEFAULT", "INLINE", "SINGLE_THREADED_EXECUTOR"])
def test_every_executor_waits(graphmill_host, executor):
    config = {"experimental": {"executor_type": executor}}
    with Session(graph=queue_graph(), host=graphmill_host, config=config) as session:
        waiting = Background(session, "get:0")
        session.run([], {"x:0": np.float32(4)}, targets=["put"])
        assert waiting.join().result == 4


@pytest.mark.parametrize(
    ("dtype", "rows", "batch"),
    [
        (dtypes.int32, [[], [1, 2], [3]], [[0, 0], [1, 2], [3, 0]]),
        (dtypes.string, [[b"a"], [b"b", b"c"], []], [[b"a", b""], [b"b", b"c"], [b"", b""]]),
    ],
)
def test_vectors_are_padded_to_the_longest(graphmill_host, dtype, rows, batch) -> None:
    graph = Graph()
    with graph.as_default():
        queue = ops.data_flow.padding_fifo_queue_v2(component_types=[dtype], shapes=[(-1,)])
        fed = graph.placeholder(dtype, [None])
        put = ops.data_flow.queue_enqueue_v2(queue, [fed])
        got = ops.data_flow.queue_dequeue_many_v2(queue, 3, component_types=[dtype])
    with Session(graph=graph, host=graphmill_host) as session:
        for row in rows:
            session.run([], {fed: np.array(row, dtype.as_numpy_dtype)}, targets=[put])
        np.testing.assert_array_equal(session.run(got), [batch])


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("rank", [1, 2])
def test_padding_is_within_the_memory_budget(graphmill_host, waits: bool, rank: int) -> None:
    """Small elements can make a large batch: each is as long as the longest in each dimension."""
    graph = Graph()
    with graph.as_default():
        queue = ops.data_flow.padding_fifo_queue_v2(
            component_types=["float32"], shapes=[(-1,) * rank]
        )
        fed = graph.placeholder("float32", [None] * rank)
        put = ops.data_flow.queue_enqueue_v2(queue, [fed])
        got = ops.data_flow.queue_dequeue_many_v2(queue, 300, component_types=["float32"])
    long, wide = np.zeros([20_000, 1], np.float32), np.zeros([1, 300], np.float32)
    elements = [long, *[wide] * 299] if rank == 2 else [long[:, 0], *[wide[0]] * 299]
    config = {"graphmill": {"memory_budget_bytes": 8 << 20}}
    with Session(graph=graph, host=graphmill_host, config=config) as session:
        waiting = Background(session, got) if waits else None
        for element in elements:
            session.run([], {fed: element}, targets=[put])
        error = (waiting or Background(session, got)).join().error
    assert isinstance(error, errors.ResourceExhaustedError)
    assert "the padded batch of shape [300, 20000" in error.message
    assert error.op_type == "QueueDequeueManyV2"
