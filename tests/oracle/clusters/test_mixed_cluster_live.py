"""A mixed cluster: TensorFlow's server is the master, task 0; ours is task 1 (clause W3)."""

from __future__ import annotations

import socket

import numpy as np
import pytest

import graphmill

pytestmark = pytest.mark.oracle

NEAR = "/job:worker/task:0/cpu:0"
FAR = "/job:worker/task:1/cpu:0"


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
def tf1(tf):
    return tf.compat.v1


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """The folder below which our task may write."""
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="module")
def target(tf, checkpoints):
    """Yield the target of TensorFlow's server, whose cluster includes ours."""
    pytest.importorskip("grpc")
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    allow = [f"fs.write:{checkpoints}"]
    with graphmill.Server({"worker": addresses}, "worker", 1, allow=allow):
        server = tf.distribute.Server({"worker": addresses}, job_name="worker", task_index=0)
        yield server.target


@pytest.fixture(params=[False, True], ids=["control_flow_v1", "control_flow_v2"])
def control_flow(request, tf1):
    was_v2 = tf1.control_flow_v2_enabled()
    (tf1.enable_control_flow_v2 if request.param else tf1.disable_control_flow_v2)()
    yield
    (tf1.enable_control_flow_v2 if was_v2 else tf1.disable_control_flow_v2)()


def on_ours(tf1, target, fetches, feeds=({},), init=None, **options):
    """Run a graph for each dict of feeds; all fetches depend on our task."""
    with tf1.Session(target, graph=tf1.get_default_graph()) as session:
        if init is not None:
            session.run(init)
        return [session.run(fetches, feed, **options) for feed in feeds]


@pytest.fixture
def graph(tf):
    with tf.Graph().as_default() as graph:
        yield graph


def test_large_tensors_round_trip_as_messages(tf, tf1, target, graph):
    # What tasks of graphmill's agree on for them, TensorFlow's neither sees nor needs.
    x = tf1.placeholder(tf.float32, [None])
    with tf1.device(NEAR):
        a = x + 1.0
    with tf1.device(FAR):
        b = a * 2.0
    with tf1.device(NEAR):
        c = -b
    fed = np.arange(16 << 20, dtype=np.float32)
    (found,) = on_ours(tf1, target, c, [{x: fed}])
    np.testing.assert_array_equal(found, -2 * (fed + 1))


def test_tensors_round_trip(tf, tf1, target, graph):
    x = tf1.placeholder(tf.float32, [None, 3])
    with tf1.device(FAR):
        y = tf.matmul(x, tf.constant(np.eye(3, dtype=np.float32) * 2)) + 1.0
    with tf1.device(NEAR):
        z = tf.reduce_sum(y)
    feeds = [{x: np.ones((n, 3))} for n in (1, 2, 50)]
    assert on_ours(tf1, target, z, feeds) == [9, 18, 450]


def test_strings_and_empty_tensors_cross_tasks(tf, tf1, target, graph):
    x = tf1.placeholder(tf.string, [None])
    with tf1.device(FAR):
        y = tf.strings.join([x, x])
    full, empty = on_ours(tf1, target, y, [{x: [b"a", b"b\0"]}, {x: []}])
    assert (full.tolist(), empty.tolist()) == ([b"aa", b"b\0b\0"], [])


def test_large_tensors_cross_tasks(tf, tf1, target, graph):
    x = tf1.placeholder(tf.float32, [None])
    with tf1.device(FAR):
        y = x * 2.0
    value = np.arange(4 << 20, dtype=np.float32)
    np.testing.assert_array_equal(on_ours(tf1, target, y, [{x: value}])[0], 2 * value)


@pytest.mark.parametrize("use_resource", [False, True])
def test_variables_are_trained_on_a_parameter_server(tf, tf1, target, graph, use_resource):
    with tf1.device(FAR):
        v = tf1.get_variable(
            f"v{use_resource}",
            [3],
            initializer=tf1.zeros_initializer(),
            use_resource=use_resource,
        )
    with tf1.device(NEAR):
        loss = tf.reduce_sum((v - tf.constant([1.0, 2.0, 3.0])) ** 2)
    train = tf1.train.AdamOptimizer(0.1).minimize(loss)
    init = tf1.global_variables_initializer()
    ours = on_ours(tf1, target, [loss, train], [{}] * 30, init)
    losses = [loss for loss, _ in ours]
    assert losses[0] == 14
    assert losses[-1] < 1
    assert losses == sorted(losses, reverse=True)


def test_conditionals_run_on_both_tasks(tf, tf1, target, graph, control_flow):
    p = tf1.placeholder(tf.bool, [])
    x = tf.constant(3.0)

    def far():
        with tf1.device(FAR):
            return x * 2.0

    def near():
        with tf1.device(NEAR):
            return -x

    y = tf1.cond(p, far, near)
    assert on_ours(tf1, target, y, [{p: True}, {p: False}, {p: True}]) == [6, -3, 6]


@pytest.mark.parametrize("devices", [(NEAR, FAR), (FAR, NEAR)])
def test_loops_run_on_both_tasks(tf, tf1, target, graph, control_flow, devices):
    cond_on, body_on = devices
    n = tf1.placeholder(tf.int32, [])

    def inner(j, x):
        with tf1.device(body_on):
            return j + 1, x + 1.0

    def outer(i, x):
        with tf1.device(body_on):
            doubled = x * 2.0
        with tf1.device(cond_on):
            _, y = tf1.while_loop(lambda j, _: j < 3, inner, [0, doubled])
        return i + 1, y

    with tf1.device(cond_on):
        _, y = tf1.while_loop(lambda i, _: i < n, outer, [0, 1.0])
    found = on_ours(tf1, target, y, [{n: k} for k in (0, 1, 2, 6)])
    expected = []
    for k in (0, 1, 2, 6):
        value = 1.0
        for _ in range(k):
            value = value * 2 + 3
        expected.append(value)
    assert found == expected


def test_errors_name_their_node(tf, tf1, target, graph):
    x = tf1.placeholder(tf.float32, [])
    with tf1.device(FAR):
        bad = tf1.check_numerics(x, "no number", name="checked")
    with tf1.device(NEAR):
        y = bad + 1.0
    with pytest.raises(tf.errors.InvalidArgumentError, match="no number") as caught:
        on_ours(tf1, target, y, [{x: float("nan")}])
    assert caught.value.op.name == "checked"


@pytest.mark.parametrize("places", [(NEAR, FAR), (FAR, NEAR)])
def test_the_task_at_fault_is_named(tf, tf1, target, graph, places):
    # In a cluster of TensorFlow's own either task may be named: its workers do not tell its master
    # which error follows from the other one's.
    x = tf1.placeholder(tf.float32, [])
    with tf1.device(places[0]):
        bad = tf1.check_numerics(x, "no number", name="checked")
    with tf1.device(places[1]):
        y = bad + 1.0
    at_fault = places[0].removesuffix("/cpu:0").replace("/task", "/replica:0/task")
    with tf1.Session(target, graph=graph) as session:
        for _ in range(10):
            with pytest.raises(tf.errors.InvalidArgumentError, match="no number") as caught:
                session.run(y, {x: float("nan")})
            message = str(caught.value)
            assert "_Derived_" not in message
            first = message[message.index("From /job:") :].partition(":\n")[0]
            assert first == f"From {at_fault}"


def test_timeout_cancels_waits_on_our_task(tf, tf1, target, graph):
    with tf1.device(FAR):
        queue = tf1.FIFOQueue(1, [tf.float32])
        taken, put = queue.dequeue(), queue.enqueue([4.0])
    with tf1.Session(target, graph=graph) as session:
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(taken, options=tf1.RunOptions(timeout_in_ms=300))
        session.run(put)
        assert session.run(taken) == 4


def test_sessions_share_queues_and_partial_runs_work(tf, tf1, target, graph):
    with tf1.device(FAR):
        queue = tf1.FIFOQueue(4, [tf.float32], shared_name="shared by two")
        taken, put = queue.dequeue(), queue.enqueue([5.0])
    a, b = tf1.placeholder(tf.float32, []), tf1.placeholder(tf.float32, [])
    with tf1.device(FAR):
        one = -a
        two = one * b
    with tf1.Session(target, graph=graph) as first, tf1.Session(target, graph=graph) as second:
        first.run(put)
        assert second.run(taken) == 5
        handle = first.partial_run_setup([one, two], [a, b])
        assert first.partial_run(handle, one, {a: 2.0}) == -2
        assert first.partial_run(handle, two, {b: 3.0}) == -6


def test_a_trace_has_the_nodes_of_our_task(tf, tf1, target, graph):
    x = tf1.placeholder(tf.float32, [])
    with tf1.device(FAR):
        y = tf.exp(x, name="exponential") * 2.0
    with tf1.device(NEAR):
        z = y + 1.0
    metadata = tf1.RunMetadata()
    options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE, output_partition_graphs=True)
    on_ours(tf1, target, z, [{x: 1.0}], options=options, run_metadata=metadata)
    far = [d for d in metadata.step_stats.dev_stats if "task:1" in d.device]
    names = {node.node_name for device in far for node in device.node_stats}
    assert "exponential" in names
    assert len(metadata.partition_graphs) == 2


def test_missing_ops_are_named(tf, tf1, target, graph):
    with tf1.device(FAR):
        image = tf.raw_ops.DecodeJxl(contents=b"")
    with pytest.raises(tf.errors.UnimplementedError, match="DecodeJxl"):
        on_ours(tf1, target, [image.op])


def test_monitored_training_runs_to_its_last_step(tf, tf1, target, graph, checkpoints):
    with tf1.device(FAR):
        step = tf1.train.get_or_create_global_step()
        w = tf1.get_variable("weights", [4, 1], initializer=tf1.ones_initializer())
    with tf1.device(NEAR):
        x = tf1.random.normal([16, 4], seed=1)
        target_value = tf.reduce_sum(x, 1, keepdims=True) * 0.5
        loss = tf.reduce_mean((tf.matmul(x, w) - target_value) ** 2)
    train = tf1.train.AdamOptimizer(0.05).minimize(loss, global_step=step)
    hooks = [tf1.train.StopAtStepHook(40)]
    losses = []
    with tf1.train.MonitoredTrainingSession(
        target, checkpoint_dir=str(checkpoints), save_checkpoint_steps=20, hooks=hooks
    ) as session:
        while not session.should_stop():
            losses.append(session.run([loss, train])[0])
    assert len(losses) == 40
    assert losses[-1] < losses[0] / 10
    assert tf1.train.latest_checkpoint(str(checkpoints)).endswith("-40")


def test_restart_of_our_task_is_aborted_error(tf, tf1, graph):
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    cluster = {"worker": addresses}
    ours = graphmill.Server(cluster, "worker", 1)
    target = tf.distribute.Server(cluster, job_name="worker", task_index=0).target
    x = tf1.placeholder(tf.float32, [])
    with tf1.device(FAR):
        y = x * 2.0
    session = tf1.Session(target, graph=graph)
    assert session.run(y, {x: 3.0}) == 6
    ours.stop()
    with pytest.raises(tf.errors.UnavailableError):
        session.run(y, {x: 3.0})
    with graphmill.Server(cluster, "worker", 1):
        with tf1.Session(target, graph=graph) as again:  # waits until the task is there
            assert again.run(y, {x: 3.0}) == 6
        # The master reports one of the errors first: ours, or the receive that it cancelled.
        with pytest.raises((tf.errors.AbortedError, tf.errors.CancelledError), match="restarted"):
            session.run(y, {x: 3.0})
        session.close()  # TensorFlow's master waits for a task that is gone


def test_our_tasks_have_collectives_under_a_master_of_tensorflow(tf, tf1):
    from tensorflow.python.ops import collective_ops

    pytest.importorskip("grpc")
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(3)]}
    ours = graphmill.ConfigProto()
    ours.experimental.collective_group_leader = "/job:worker/replica:0/task:1"
    with (
        graphmill.Server(cluster, "worker", 1, config=ours),
        graphmill.Server(cluster, "worker", 2, config=ours),
        tf.Graph().as_default() as graph,
    ):
        theirs = tf1.ConfigProto()
        theirs.experimental.collective_group_leader = "/job:worker/replica:0/task:0"
        server = tf.distribute.Server(cluster, job_name="worker", task_index=0, config=theirs)
        sums = []
        for task in (1, 2):
            with tf1.device(f"/job:worker/task:{task}"):
                value = tf.constant([1.0, task])
                sums.append(collective_ops.all_reduce(value, 2, 1, 1, "Add", "Id"))
        options = tf1.RunOptions()
        options.experimental.collective_graph_key = 3
        with tf1.Session(server.target, graph=graph) as session:
            for _ in range(3):
                found = session.run(sums, options=options)
                assert [value.tolist() for value in found] == [[2, 3], [2, 3]]


def test_a_group_with_a_member_on_tensorflows_task_is_refused(tf, tf1):
    from tensorflow.python.ops import collective_ops

    pytest.importorskip("grpc")
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(2)]}
    config = tf1.ConfigProto()
    config.experimental.collective_group_leader = "/job:worker/replica:0/task:0"
    ours = graphmill.ConfigProto.FromString(config.SerializeToString())
    with graphmill.Server(cluster, "worker", 1, config=ours), tf.Graph().as_default() as graph:
        server = tf.distribute.Server(cluster, job_name="worker", task_index=0, config=config)
        sums = []
        for task in (0, 1):
            with tf1.device(f"/job:worker/task:{task}"):
                sums.append(collective_ops.all_reduce(tf.ones([2]), 2, 1, 1, "Add", "Id"))
        options = tf1.RunOptions(timeout_in_ms=30_000)
        options.experimental.collective_graph_key = 3
        with (
            tf1.Session(server.target, graph=graph) as session,
            pytest.raises(tf.errors.UnimplementedError, match="tasks of TensorFlow"),
        ):
            session.run(sums, options=options)
