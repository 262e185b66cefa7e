"""Our client gets equal results from TensorFlow's server, ours and a local session (W1, W2).

The servers are processes of their own. Each part builds a graph, runs it on a target and returns
what it found: values, dtypes, and the class and node of errors.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops, train

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytest.importorskip("grpc")
pytestmark = pytest.mark.oracle

PYTHON = os.environ.get("GRAPHMILL_TENSORFLOW_PYTHON", sys.executable)
CHILD = Path(__file__).with_name("served_sessions_child.py")
SERVERS = {
    "graphmill": (sys.executable, "-m", "graphmill", "serve", "--trust"),
    "TensorFlow": (PYTHON, str(CHILD), "serve"),
}
TYPES = "float16 bfloat16 float32 float64 complex64 complex128 bool int8 int16 int32 int64 uint8"
CONFIG = graphmill.ConfigProto(operation_timeout_in_ms=60_000)


@contextmanager
def served_by(command: tuple[str, ...]) -> Iterator[str]:
    """Start a server; yield its target."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            word, address = server.stdout.readline().split()
            assert word == "READY"
            yield f"grpc://{address}"
        finally:
            server.terminate()


@pytest.fixture(scope="module", params=SERVERS)
def target(request: pytest.FixtureRequest) -> Iterator[str]:
    with served_by(SERVERS[request.param]) as address:
        yield address


def plain(value: Any) -> Any:
    array = np.asarray(value)
    return [
        str(array.dtype),
        array.astype(str).tolist() if array.dtype == object else array.tolist(),
    ]


def failure(action: Callable[[], Any]) -> list[Any]:
    """Return the class of an error, and the node it names."""
    try:
        action()
    except errors.OpError as error:
        return [type(error).__name__, error.node]
    return ["no error"]


def values(target: str, graph: graphmill.Graph) -> Any:
    with graphmill.Session(target, graph, CONFIG) as session:
        x = graph.placeholder("float32", [None])
        total = ops.math.sum(x, 0)
        fetches = {"all": [x * 2.0 + 1.0, total], "text": graph.constant(b"a\0b")}
        found = session.run(fetches, {x: [1, 2, 3]})
        empty = session.run(x * 1.0, {x: np.zeros(0, np.float32)})
        large = session.run(total, {x: np.ones(5_000_000, np.float32)})
    return [plain(value) for value in (*found["all"], found["text"], empty, large)]


def types(target: str, graph: graphmill.Graph) -> Any:
    found = []
    with graphmill.Session(target, graph, CONFIG) as session:
        for name in TYPES.split():
            dtype = graphmill.as_dtype(name)
            x = graph.placeholder(dtype, [2])
            fed = np.array([1, 0], dtype.as_numpy_dtype)
            value = session.run(ops.array.identity(x), {x: fed})
            found.append([str(value.dtype), str(value.tolist())])
        words = graph.placeholder("string", [2])
        found.append(plain(session.run(ops.array.identity(words), {words: [b"x\0", b"yz"]})))
    return found


def graphs_that_grow(target: str, graph: graphmill.Graph) -> Any:
    with graphmill.Session(target, graph, CONFIG) as session:
        first = graph.constant(1)
        found = [plain(session.run(first))]
        second = first + 1
        found.append(plain(session.run(second)))
        loop = graphmill.while_loop(lambda i: i < 10, lambda i: i + 1, [second])
        branch = graphmill.cond(second > 3, lambda: first * 5, lambda: first * 7)
        return [*found, plain(session.run(loop)), plain(session.run(branch))]


def variables(target: str, graph: graphmill.Graph) -> Any:
    """Variables on a server outlive the session that created them."""
    variable = graphmill.Variable([1.0, 2.0], name="kept")
    add = variable.assign_add([1.0, 1.0])
    init = graphmill.global_variables_initializer()
    with graphmill.Session(target, graph, CONFIG) as session:
        found = [failure(lambda: session.run(variable))]
        session.run(init)
        return [*found, plain(session.run(add)), plain(session.run(variable))]


def reference_variables(target: str, graph: graphmill.Graph) -> Any:
    with graphmill.Session(target, graph, CONFIG) as session:
        v = ops.state.variable_v2(shape=[2], dtype="float32", name="v")
        session.run(ops.state.assign(v, np.float32([1, 2])))
        added = ops.state.assign_add(v, np.float32([10, 10]))
        return [plain(session.run(added)), plain(session.run(v))]


def training(target: str, graph: graphmill.Graph) -> Any:
    weights = graphmill.Variable(np.full((3, 1), 0.5, np.float32), name="weights")
    inputs = np.float32([[1, 2, 3], [4, 5, 6]])
    difference = ops.math.mat_mul(inputs, weights) - np.float32([[1], [2]])
    loss = ops.math.sum(ops.math.square(difference), [0, 1])
    step = train.AdamOptimizer(0.1).minimize(loss)
    with graphmill.Session(target, graph, CONFIG) as session:
        session.run(graphmill.global_variables_initializer())
        found = [session.run([loss, step])[0] for _ in range(12)]
    return [round(float(value), 3) for value in found]


def queues(target: str, graph: graphmill.Graph) -> Any:
    queue = ops.data_flow.fifo_queue_v2(component_types=["int32"], shapes=[[]], capacity=3)
    put = ops.data_flow.queue_enqueue_v2(queue, [np.int32(7)])
    (take,) = ops.data_flow.queue_dequeue_v2(queue, component_types=["int32"])
    size = ops.data_flow.queue_size_v2(queue)
    close = ops.data_flow.queue_close_v2(queue)
    with graphmill.Session(target, graph, CONFIG) as session:
        taken: list[Any] = []
        thread = threading.Thread(target=lambda: taken.append(session.run(take)))
        thread.start()  # it waits for an element
        session.run(put)
        thread.join()
        session.run(put)
        found = [plain(taken[0]), plain(session.run(size)), plain(session.run(take))]
        session.run(close)
        return [*found, failure(lambda: session.run(take))]


def faults(target: str, graph: graphmill.Graph) -> Any:
    x = graphmill.ops.array.placeholder(dtype="float32", shape=[None], name="x")
    index = graphmill.ops.array.placeholder(dtype="int32", shape=[], name="index")
    checked = ops.array.check_numerics(x, message=b"bad", name="checked")
    taken = ops.array.gather_v2(x, index, np.int32(0), name="taken")
    with graphmill.Session(target, graph, CONFIG) as session:
        return [
            failure(lambda: session.run(checked, {x: [np.nan]})),
            failure(lambda: session.run(taken, {x: [1.0], index: 5})),
            failure(lambda: session.run(checked)),
            failure(lambda: session.run("nothing:0")),
            failure(lambda: session.run(taken, {x: [1.0], index: 0})),
        ]


def timeouts(target: str, graph: graphmill.Graph) -> Any:
    queue = ops.data_flow.fifo_queue_v2(component_types=["int32"], shapes=[[]])
    (take,) = ops.data_flow.queue_dequeue_v2(queue, component_types=["int32"])
    options = graphmill.RunOptions(timeout_in_ms=200)
    with graphmill.Session(target, graph, CONFIG) as session:
        late = failure(lambda: session.run(take, options=options))
        put = ops.data_flow.queue_enqueue_v2(queue, [np.int32(7)])
        session.run(put)
        return [late[0], plain(session.run(take))]


def partial_runs(target: str, graph: graphmill.Graph) -> Any:
    a, b, c = (ops.array.placeholder(dtype="float32", shape=[]) for _ in range(3))
    total = a + b
    product = total * c
    with graphmill.Session(target, graph, CONFIG) as session:
        handle = session.partial_run_setup([total, product], [a, b, c])
        found = [plain(session.partial_run(handle, total, {a: 1, b: 2}))]
        found.append(plain(session.partial_run(handle, product, {c: 6})))
        handle = session.partial_run_setup([total, product], [a, b, c])
        session.partial_run(handle, total, {a: 1, b: 2})
        for fetch, feeds in ((total, {}), (product, {a: 3})):
            found.append(failure(lambda f=fetch, d=feeds: session.partial_run(handle, f, d))[:1])
        return found


def callables(target: str, graph: graphmill.Graph) -> Any:
    x = ops.array.placeholder(dtype="float32", shape=[2], name="x")
    y = ops.math.mul(x, np.float32(3), name="y")
    with graphmill.Session(target, graph, CONFIG) as session:
        found = [plain(session.make_callable(y, [x])(np.float32([1, 2])))]
        call = session.make_callable_from_options({"feed": ["x:0"], "fetch": ["y:0"]})
        for value in ([3, 4], [5, 6]):
            found.extend(plain(result) for result in call(np.float32(value)))
        options = {"feed": ["x:0"], "fetch": ["unknown:0"]}
        return [*found, failure(lambda: session.make_callable_from_options(options))[:1]]


def metadata(target: str, graph: graphmill.Graph) -> Any:
    x = ops.array.placeholder(dtype="float32", shape=[2, 2])
    y = ops.math.mat_mul(x, np.ones((2, 2), np.float32), name="product")
    options = graphmill.RunOptions(
        trace_level=graphmill.RunOptions.FULL_TRACE, output_partition_graphs=True
    )
    found = graphmill.RunMetadata()
    with graphmill.Session(target, graph, CONFIG) as session:
        session.run(y, {x: np.ones((2, 2))}, options=options, run_metadata=found)
    nodes = {node.node_name for part in found.step_stats.dev_stats for node in part.node_stats}
    return [any(name.startswith("product") for name in nodes), len(found.partition_graphs) > 0]


def devices(target: str, graph: graphmill.Graph) -> Any:
    with graphmill.Session(target, graph, CONFIG) as session:
        found = [one for one in session.list_devices() if one.device_type == "CPU"]
    return [one.name.rpartition("/")[2] for one in found]


def closed_sessions(target: str, graph: graphmill.Graph) -> Any:
    y = graph.constant(1.0)
    session = graphmill.Session(target, graph, CONFIG)
    found = [plain(session.run(y))]
    session.close()
    session.close()
    try:
        session.run(y)
    except (RuntimeError, errors.OpError) as error:
        found.append(type(error).__name__)
    return found


PARTS = [
    *(values, types, graphs_that_grow, variables, reference_variables, training, queues, faults),
    *(timeouts, partial_runs, callables, metadata, devices, closed_sessions),
]


def outcome(part: Callable[[str, graphmill.Graph], Any], target: str) -> Any:
    graph = graphmill.Graph()
    with graph.as_default():
        return part(target, graph)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_server_returns_the_results_of_a_local_session(
    part: Callable[[str, graphmill.Graph], Any], target: str
) -> None:
    assert outcome(part, target) == outcome(part, "")


def test_variables_outlive_their_session_until_a_reset(target: str) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        variable = graphmill.Variable([1.0], name="shared")
        init = graphmill.global_variables_initializer()
    with graphmill.Session(target, graph, CONFIG) as session:
        session.run(init)
    with graphmill.Session(target, graph, CONFIG) as session:
        assert session.run(variable) == [1.0]
        graphmill.reset(target)
        with pytest.raises(errors.AbortedError):
            session.run(variable)
    with (
        graphmill.Session(target, graph, CONFIG) as session,
        pytest.raises(errors.FailedPreconditionError),
    ):
        session.run(variable)
