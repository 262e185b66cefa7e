"""A mixed cluster: our master and our task 0, and TensorFlow's server as task 1 (clause W2)."""

from __future__ import annotations

import socket

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops, proto
from graphmill.distributed.master.cluster_session import ClusterSession
from graphmill.session.session_devices import create_devices
from graphmill.spi import VariantRegistry
from graphmill.testing.timeouts import within

pytestmark = pytest.mark.oracle

NEAR = "/job:worker/replica:0/task:0"
FAR = "/job:worker/replica:0/task:1"


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


@pytest.fixture(scope="module")
def workers(tf):
    """Yield the workers of both tasks, as our master calls them."""
    pytest.importorskip("grpc")
    from graphmill_plugins.distributed.master.grpc_worker import GrpcWorker

    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    with graphmill.Server({"worker": addresses}, "worker", 0):
        server = tf.distribute.Server({"worker": addresses}, job_name="worker", task_index=1)
        made = {
            NEAR: GrpcWorker(NEAR, addresses[0], VariantRegistry("variant")),
            FAR: GrpcWorker(FAR, addresses[1], VariantRegistry("variant")),
        }
        yield made
        for worker in made.values():
            worker.close()
        del server


@pytest.fixture
def new_session(workers):
    """Yield a function that opens a session of a graph on both tasks."""
    host, config = graphmill.default_host(), proto.ConfigProto()
    devices = create_devices(host, config, NEAR)
    made = []

    def new(graph):
        made.append(ClusterSession(host, config, workers, NEAR, devices))
        made[-1].follow(graph)
        return made[-1]

    yield new
    for session in made:
        within(session.close, "the end of a session")
    for device in devices:
        device.close()


def run(session, fetches, feeds=None, targets=()):
    feeds = feeds or {}
    signature = tuple(feeds), tuple(fetches), tuple(targets)
    return within(lambda: session.run(signature, list(feeds.values()), None, None), "the step")


def test_tensors_round_trip(new_session):
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder(graphmill.float32, name="x")
        text = graph.placeholder(graphmill.string, name="text")
        with graph.device(FAR):
            doubled = ops.math.mul(ops.math.neg(x), graph.constant(2.0), name="doubled")
            ops.string.string_join([text, text], name="twice")
        ops.math.neg(doubled, name="y")
    session = new_session(graph)
    for x in (1.0, 2.5, -3.0):
        assert run(session, ["y:0", "doubled:0"], {"x:0": x}) == [2 * x, -2 * x]
    large = np.arange(1 << 20, dtype=np.float32)
    np.testing.assert_array_equal(run(session, ["y:0"], {"x:0": large})[0], 2 * large)
    assert run(session, ["twice:0"], {"text:0": b"a\0"}) == [b"a\0a\0"]


def test_variables_live_on_tensorflows_task(new_session):
    graph = graphmill.Graph()
    with graph.as_default():
        with graph.device(FAR):
            v = ops.state.variable_v2(shape=[2], dtype="float32", name="v")
        start = graph.constant(np.float32([1, 2]))
        ops.state.assign(v, start, name="init")
        ops.state.assign_add(v, start, name="add")
        ops.math.neg(v, name="y")
    session = new_session(graph)
    with pytest.raises(errors.FailedPreconditionError, match=FAR):
        run(session, ["y:0"])
    run(session, [], targets=["init"])
    run(session, [], targets=["add"])
    np.testing.assert_array_equal(run(session, ["y:0"])[0], [-2, -4])


@pytest.mark.parametrize("devices", [(NEAR, FAR), (FAR, NEAR)])
def test_loops_run_on_both(new_session, devices):
    graph = graphmill.Graph()
    with graph.as_default():
        n = graph.placeholder(graphmill.float32, shape=[], name="n")
        with graph.device(devices[0]):
            enter = ops.control_flow.enter(graph.constant(0.0), frame_name="w")
            limit = ops.control_flow.enter(n, frame_name="w", is_constant=True)
            merge = ops.control_flow.merge([enter, enter]).output
            cond = ops.control_flow.loop_cond(ops.math.less(merge, limit))
            switch = ops.control_flow.switch(merge, cond)
            with graph.device(devices[1]):
                one = ops.control_flow.enter(graph.constant(1.0), frame_name="w", is_constant=True)
                added = ops.math.add_v2(switch.output_true, one)
            following = ops.control_flow.next_iteration(added)
            graph.replace_input(merge.op, 1, following.op, 0)
            ops.control_flow.exit(switch.output_false, name="y")
    session = new_session(graph)
    for count in (0, 1, 7, 30):
        assert run(session, ["y:0"], {"n:0": count}) == [count]


def test_dead_tensors_and_errors_from_tensorflow_are_received(new_session):
    graph = graphmill.Graph()
    with graph.as_default():
        p = graph.placeholder(graphmill.bool, name="p")
        x = graph.placeholder(graphmill.float32, name="x")
        switch = ops.control_flow.switch(x, p)
        with graph.device(FAR):
            yes = ops.array.check_numerics(switch.output_true, message="no number", name="yes")
        ops.control_flow.merge([ops.math.neg(switch.output_false), yes], name="y")
    session = new_session(graph)
    assert run(session, ["y:0"], {"p:0": True, "x:0": 3.0}) == [3]
    assert run(session, ["y:0"], {"p:0": False, "x:0": 3.0}) == [-3]
    for _ in range(3):
        with pytest.raises(errors.InvalidArgumentError, match="no number") as caught:
            run(session, ["y:0"], {"p:0": True, "x:0": np.nan})
        assert caught.value.message.startswith(f"From {FAR}:\n")
    assert run(session, ["y:0"], {"p:0": True, "x:0": 3.0}) == [3]
