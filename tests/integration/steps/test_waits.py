"""A step that waits says which node waits, and for what: in errors, and on request."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

import graphmill
from graphmill import errors, ops
from graphmill.graph.builder import Graph
from graphmill.ops.definition.op_def import ArgDef, OpDef
from graphmill.testing.timeouts import within

if TYPE_CHECKING:
    from collections.abc import Callable

SOON = {"timeout_in_ms": 100}
CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
data_flow: Any = ops.data_flow
STATE: Any = ops.state


def failure(graph: Graph, fetch: str, config: Any = None, host: Any = None) -> errors.OpError:
    """Return the error of a step that waits until its timeout."""
    with (
        graphmill.Session(graph=graph, config=config, host=host) as session,
        pytest.raises(errors.DeadlineExceededError) as caught,
    ):
        session.run(fetch, options=SOON)
    return caught.value


def until_waiting(session: graphmill.Session) -> None:
    """Return when a step of a session waits."""

    def look() -> None:
        while not session.waits():
            pass

    within(look, "the step begins to wait")


def queue_graph(kind: str = "fifo_queue_v2", **attrs: Any) -> Graph:
    """Return a graph with queue `q`, an enqueue `put` and a dequeue `got`."""
    graph = Graph()
    with graph.as_default():
        attrs = {"component_types": ["float32"], "shapes": [[]], "capacity": 1, **attrs}
        queue = getattr(data_flow, kind)(**attrs, shared_name="q", name="queue")
        data_flow.queue_enqueue_v2(queue, [graph.constant(1.0)], name="put")
        (got,) = data_flow.queue_dequeue_v2(queue, component_types=["float32"], name="got")
        data_flow.queue_dequeue_many_v2(
            queue, graph.constant(3), component_types=["float32"], name="many"
        )
        ops.math.neg(got, name="out")
    return graph


def staged(graph: Graph) -> None:
    data_flow.unstage(dtypes=["float32"], shared_name="area", name="node")


def mapped(graph: Graph) -> None:
    key, indices = graph.constant(7, "int64"), graph.constant([0])
    data_flow.map_unstage(key, indices, dtypes=["float32"], shared_name="area", name="node")


def barred(graph: Graph) -> None:
    handle = data_flow.barrier(component_types=["float32"], shapes=[[]], shared_name="b")
    count = graph.constant(2)
    data_flow.barrier_take_many(handle, count, component_types=["float32"], name="node")


def accumulated(graph: Graph) -> None:
    handle = data_flow.conditional_accumulator(dtype="float32", shape=[], shared_name="a")
    data_flow.accumulator_take_gradient(handle, graph.constant(2), dtype="float32", name="node")


def locked(graph: Graph) -> None:
    mutex = STATE.mutex_v2(shared_name="m", name="m")
    lock = STATE.mutex_lock(mutex, name="first")
    with graph.control_dependencies([lock.op]):
        STATE.mutex_lock(mutex, name="node")


def shuffled(graph: Graph) -> None:
    queue = data_flow.random_shuffle_queue_v2(
        component_types=["float32"], capacity=5, min_after_dequeue=2, shared_name="q"
    )
    data_flow.queue_dequeue_v2(queue, component_types=["float32"], name="node")


@pytest.mark.parametrize(
    ("build", "what"),
    [
        (staged, "an element in staging area 'area' (0 elements, 0 incomplete)"),
        (mapped, "key 7 in staging area 'area' (0 elements, 0 incomplete)"),
        (barred, "2 elements of barrier 'b' (0 complete, 0 incomplete)"),
        (accumulated, "2 gradients of accumulator 'a' (0 so far)"),
        (locked, "mutex 'm', which is locked"),
        (shuffled, "RandomShuffleQueue 'q' (0 elements, capacity 5, min_after_dequeue 2, "),
    ],
)
def test_error_describes_the_wait_of_the_node(build: Callable[[Graph], None], what: str) -> None:
    graph = Graph()
    with graph.as_default():
        build(graph)
    error = failure(graph, "node")
    assert f"node 'node' ({error.op_type}) waits for" in error.message
    assert what in error.message
    assert (error.node, error.device) == ("node", CPU)


def test_dequeue_names_queue_sizes_and_other_users() -> None:
    error = failure(queue_graph(), "out:0")
    assert error.message == (
        "the step did not end within its timeout of 100 ms; node 'got' (QueueDequeueV2) waits for "
        "an element of FIFOQueue 'q' (0 elements, capacity 1, 0 enqueues and 1 dequeues pending), "
        "also used by 'put' (QueueEnqueueV2), 'many' (QueueDequeueManyV2)"
    )
    assert (error.node, error.op_type, error.device) == ("got", "QueueDequeueV2", CPU)


def test_dequeue_of_several_counts_the_missing_ones() -> None:
    with graphmill.Session(graph=queue_graph()) as session:
        session.run([], targets=["put"])
        with pytest.raises(errors.DeadlineExceededError, match="waits for 2 elements of FIFOQueue"):
            session.run("many:0", options=SOON)


def test_enqueue_waits_for_room() -> None:
    with graphmill.Session(graph=queue_graph()) as session:
        session.run([], targets=["put"])
        with pytest.raises(errors.DeadlineExceededError, match="waits for room in FIFOQueue 'q'"):
            session.run([], targets=["put"], options=SOON)


@pytest.mark.parametrize("executor", ["", "INLINE", "SINGLE_THREADED_EXECUTOR"])
def test_every_executor_names_the_node(executor: str) -> None:
    error = failure(queue_graph(), "out:0", {"experimental": {"executor_type": executor}})
    assert error.node == "got"
    assert "waits for an element of FIFOQueue 'q'" in error.message


def test_receive_names_the_missing_tensor() -> None:
    graph = queue_graph()
    with graph.as_default(), graph.device("CPU:1"):
        ops.math.neg(graph.get_tensor_by_name("out:0"), name="far")
    error = failure(graph, "far:0", {"device_count": {"CPU": 2}})
    assert "waits for an element of FIFOQueue 'q'" in error.message
    assert "(_Recv) waits for 'edge_" in error.message
    assert f"from {CPU}" in error.message


def test_step_that_computes_names_the_node_that_ran() -> None:
    graph = Graph()
    with graph.as_default():
        i = graph.constant(0)
        graphmill.while_loop(lambda i: ops.math.less(i, -1 + i * 0 + 2**30), lambda i: i + 1, [i])
    fetch = next(node.name for node in graph.get_operations() if node.type == "Exit")
    config = {"graphmill": {"jit": "off"}}
    error = failure(graph, f"{fetch}:0", config)
    assert error.node
    assert graph.get_operation_by_name(error.node)
    assert error.device == CPU


def test_closed_session_names_the_waits_of_its_steps() -> None:
    session = graphmill.Session(graph=queue_graph())
    raised: list[errors.OpError] = []

    def run() -> None:
        try:
            session.run("out:0")
        except errors.OpError as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    until_waiting(session)
    (wait,) = session.waits()
    assert (wait.node, wait.op, wait.device) == ("got", "QueueDequeueV2", CPU)
    assert str(wait).startswith("node 'got' (QueueDequeueV2) waits for an element of FIFOQueue 'q'")
    session.close()
    thread.join(60)
    assert session.waits() == []
    (error,) = raised
    assert isinstance(error, errors.CancelledError)
    assert error.node == "got"
    assert "Session has been closed" in error.message
    assert str(wait) in error.message


def test_closed_session_names_the_waits_of_a_partial_run() -> None:
    session = graphmill.Session(graph=queue_graph())
    handle = session.partial_run_setup("out:0")
    raised: list[errors.OpError] = []

    def run() -> None:
        try:
            session.partial_run(handle, "out:0")
        except errors.OpError as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    until_waiting(session)
    session.close()
    thread.join(60)
    (error,) = raised
    assert error.node == "got"
    assert "waits for an element of FIFOQueue 'q'" in error.message


def test_wait_that_ends_leaves_nothing() -> None:
    with graphmill.Session(graph=queue_graph()) as session:
        thread = threading.Thread(target=session.run, args=("out:0",))
        thread.start()
        until_waiting(session)
        session.run([], targets=["put"])
        thread.join(60)
        assert session.waits() == []


@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals go to main"
)
@pytest.mark.usefixtures("interruptible")
def test_interrupt_describes_the_waits_of_the_step() -> None:
    with graphmill.Session(graph=queue_graph()) as session:

        def interrupt() -> None:
            until_waiting(session)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt) as caught:
            session.run("out:0")
        thread.join(60)
    (note,) = caught.value.__notes__
    assert note.startswith("node 'got' (QueueDequeueV2) waits for an element of FIFOQueue 'q'")


class Plugin:
    """An op of a plugin that waits for ever, and its kernel."""

    def __init__(self, describe: Callable[[], str]) -> None:
        self.describe = describe

    @graphmill.hookimpl
    def graphmill_register_ops(self, ops: Any) -> None:
        output = ArgDef("y", type=graphmill.float32)
        ops.add(OpDef("Mine>Wait", output_args=(output,), is_stateful=True))

    @graphmill.hookimpl
    def graphmill_register_kernels(self, kernels: Any) -> None:
        @graphmill.kernel("Mine>Wait", async_=True, waits=True)
        def wait(ctx: Any, done: Any) -> None:
            token = ctx.wait(self.describe).register(
                lambda: done(error=errors.CancelledError("it was cancelled"))
            )
            assert token is not None

        kernels.add(wait)


@pytest.fixture
def plugin_graph() -> Callable[[Callable[[], str]], errors.OpError]:
    def fail(describe: Callable[[], str]) -> errors.OpError:
        host = graphmill.Host(plugins=[Plugin(describe)])
        graph_def = graphmill.proto.GraphDef()
        graph_def.node.add(name="mine", op="Mine>Wait")
        with (
            graphmill.Session(graph=graph_def, host=host) as session,
            pytest.raises(errors.DeadlineExceededError) as caught,
        ):
            session.run("mine:0", options=SOON)
        return caught.value

    return fail


def test_kernel_of_a_plugin_describes_its_wait(plugin_graph: Any) -> None:
    error = plugin_graph(lambda: "a letter")
    assert error.node == "mine"
    assert "node 'mine' (Mine>Wait) waits for a letter" in error.message


def test_description_that_fails_does_not_hide_the_error(plugin_graph: Any) -> None:
    error = plugin_graph(lambda: str(1 // 0))
    assert "waits for something that it cannot describe (ZeroDivisionError" in error.message


def test_description_is_computed_only_on_request() -> None:
    calls: list[str] = []
    graph = queue_graph()
    with graphmill.Session(graph=graph) as session, pytest.MonkeyPatch.context() as patch:
        from graphmill.runtime.steps.waits import Wait

        patch.setattr(Wait, "record", lambda wait: calls.append("record"))
        session.run([], targets=["put"])
        assert session.run("out:0") == -1.0
    assert calls == []
