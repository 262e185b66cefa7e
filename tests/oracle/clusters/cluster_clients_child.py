"""Run TensorFlow's clients against a cluster of three tasks; print the results as JSON.

`cluster_clients_child.py TARGET0 TARGET1` runs them: `/job:ps/task:0`, `/job:worker/task:0` and
`/job:worker/task:1` are the tasks, the targets are those of the two workers. With
`serve CLUSTER JOB TASK` in their place it is a server of TensorFlow for one of the tasks.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import function
from tensorflow.python.ops import collective_ops, data_flow_ops

v1 = tf.compat.v1
v1.disable_eager_execution()

PS, W0, W1 = "/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"


def failure(action: Any) -> list[Any]:
    """Return the code of an error, and the op that the client blames."""
    try:
        action()
    except tf.errors.OpError as error:
        return [error.error_code, error.op.name if error.op is not None else None]
    return ["no error"]


def plain(value: Any) -> Any:
    array = np.asarray(value)
    return array.astype(str).tolist() if array.dtype == object else np.round(array, 4).tolist()


def devices(first: str, second: str) -> Any:
    found = []
    for config in (None, v1.ConfigProto(device_filters=[PS, W0])):
        with v1.Session(first, config=config) as session:
            cpus = [one.name for one in session.list_devices() if one.device_type == "CPU"]
        found.append(sorted(cpus))  # other tasks answer in any order
    return found


def tasks(first: str, second: str) -> Any:
    x = v1.placeholder(tf.float32, [None])
    with tf.device(W1):
        doubled = x * 2
        text = tf.strings.as_string(tf.cast(doubled, tf.int32))
    with tf.device(PS):
        total = tf.reduce_sum(doubled)
        joined = tf.strings.reduce_join(text)
    with tf.device(W0):
        both = total + tf.cast(tf.strings.length(joined), tf.float32)
    found = []
    for target in (first, second):
        with v1.Session(target) as session:
            found += [
                plain(value) for value in session.run([doubled, text, total, both], {x: [1, 2, 30]})
            ]
    return found


def shared_variables(first: str, second: str) -> Any:
    with tf.device(PS):
        state = v1.get_variable("state", [2], use_resource=True, initializer=v1.zeros_initializer())
        old = v1.get_variable("old", [2], use_resource=False, initializer=v1.ones_initializer())
    with tf.device(W1):
        update = state.assign_add([1.0, 2.0])
        change = v1.scatter_add(old, [1], [5.0])
    with v1.Session(first) as session, v1.Session(second) as other:
        missing = failure(lambda: other.run(state))
        session.run(v1.global_variables_initializer())
        other.run([update, change])
        session.run([update.op, change.op])
        return [missing, plain(session.run(state)), plain(other.run(old))]


def shared_queue(first: str, second: str) -> Any:
    with tf.device(PS):
        queue = v1.FIFOQueue(3, tf.int32, [[]], shared_name="between")
    value = v1.placeholder(tf.int32, [])
    put, take = queue.enqueue(value), queue.dequeue()
    found: list[Any] = []
    with v1.Session(first) as session, v1.Session(second) as other:
        thread = threading.Thread(target=lambda: found.extend(session.run(take) for _ in range(5)))
        thread.start()
        for number in range(5):
            other.run(put, {value: number})
        thread.join()
        other.run(queue.close())
        return [[int(one) for one in found], failure(lambda: session.run(take))]


def barrier(first: str, second: str) -> Any:
    with tf.device(PS):
        barrier = data_flow_ops.Barrier((tf.float32, tf.int32), shapes=((), ()), shared_name="b")
    keys = v1.placeholder(tf.string, [None])
    floats, ints = v1.placeholder(tf.float32, [None]), v1.placeholder(tf.int32, [None])
    some, more = barrier.insert_many(0, keys, floats), barrier.insert_many(1, keys, ints)
    taken = barrier.take_many(2)
    with v1.Session(first) as session, v1.Session(second) as other:
        session.run(some, {keys: ["a", "b"], floats: [1, 2]})
        other.run(more, {keys: ["b", "a"], ints: [20, 10]})
        _indices, names, values = session.run(taken)
        order = np.argsort(names)
        return [plain(names[order]), [plain(value[order]) for value in values]]


def control_flow(target: str) -> Any:
    """Run a loop, its gradient and a conditional on two tasks."""
    x = v1.placeholder(tf.float32, [])

    def body(i: Any, y: Any) -> Any:
        with tf.device(W1):
            y = y * 2
        with tf.device(PS):
            return i + 1, y + 1

    def far() -> Any:
        with tf.device(W1):
            return v1.identity(x) + 1

    def near() -> Any:
        with tf.device(PS):
            return x - 1

    _, loop = v1.while_loop(lambda i, y: i < 5, body, (0, x))
    chosen = v1.cond(x > 0, far, near)
    fetches = [loop, chosen, v1.gradients(loop, x)[0]]
    with v1.Session(target) as session:
        return [plain(session.run(fetches, {x: value})) for value in (3.0, -3.0)]


def control_flow_v1(first: str, second: str) -> Any:
    v1.disable_control_flow_v2()
    return control_flow(first)


def control_flow_v2(first: str, second: str) -> Any:
    v1.enable_control_flow_v2()
    try:
        return control_flow(first)
    finally:
        v1.disable_control_flow_v2()


def partial_runs(first: str, second: str) -> Any:
    x, y = v1.placeholder(tf.float32, []), v1.placeholder(tf.float32, [])
    with tf.device(W1):
        one = x + 1
    with tf.device(PS):
        two = one * y
    with v1.Session(first) as session:
        handle = session.partial_run_setup([one, two], [x, y])
        early = session.partial_run(handle, one, {x: 2})
        return [float(early), float(session.partial_run(handle, two, {y: early * 10}))]


def callables(first: str, second: str) -> Any:
    x = v1.placeholder(tf.float32, [2])
    with tf.device(W1):
        y = tf.cumsum(x)
    with v1.Session(first) as session:
        call = session.make_callable(y, [x])
        return [plain(call([one, 2])) for one in range(4)]


def functions(first: str, second: str) -> Any:
    @function.Defun(tf.float32)
    def square(x: Any) -> Any:
        return x * x + 1

    @tf.function
    def triple(x: Any) -> Any:
        return x * 3

    x = v1.placeholder(tf.float32, [2])
    with tf.device(W1):
        far = square(x)
    with tf.device(PS):
        farther = triple(far)
    with v1.Session(first) as session:
        return [plain(value) for value in session.run([far, farther], {x: [1, 2]})]


def collectives(first: str, second: str) -> Any:
    """Each worker has a client of its own, with one member of each collective."""

    def run(number: int, target: str, found: dict[int, Any]) -> None:
        with tf.Graph().as_default(), tf.device([W0, W1][number]):
            x = v1.placeholder(tf.float32, [2])
            total = collective_ops.all_reduce(x, 2, 1, 1, "Add", "Id")
            mean = collective_ops.all_reduce(total + x, 2, 1, 2, "Add", "Div")
            gathered = collective_ops.all_gather(x, 2, 1, 3)
            if number:
                cast = collective_ops.broadcast_send(x, [2], tf.float32, 2, 1, 4)
            else:
                cast = collective_ops.broadcast_recv([2], tf.float32, 2, 1, 4)
            options = v1.RunOptions()
            options.experimental.collective_graph_key = 7
            with v1.Session(target) as session:
                values = [total, mean, gathered, cast]
                steps = [session.run(values, {x: [n, 10 * number]}, options) for n in range(4)]
            found[number] = [[plain(value) for value in step] for step in steps]

    found: dict[int, Any] = {}
    clients = [
        threading.Thread(target=run, args=(number, target, found), daemon=True)
        for number, target in enumerate((first, second))
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join(60)
    return found


def errors(first: str, second: str) -> Any:
    x = v1.placeholder(tf.float32, [None], name="x")
    with tf.device(W1):
        checked = tf.debugging.check_numerics(x, "bad", name="checked")
        product = tf.matmul(v1.reshape(x, [1, -1]), tf.ones([3, 1]), name="product")
    with v1.Session(first) as session:
        return [
            failure(lambda: session.run(checked, {x: [float("nan")]})),
            failure(lambda: session.run(product, {x: [1, 2]})),
            failure(lambda: session.run(checked + 1)),
            plain(session.run(product, {x: [1, 2, 3]})),
        ]


def nowhere(first: str, second: str) -> Any:
    with tf.device("/job:worker/task:7"):
        lost = tf.constant(1.0, name="lost")
    with v1.Session(first) as session:
        return failure(lambda: session.run(lost))[0]  # graphmill also names the op


def timeout(first: str, second: str) -> Any:
    with tf.device(W1):
        queue = v1.FIFOQueue(3, tf.int32, [[]])
        waits = queue.dequeue(name="waits")
    options = v1.RunOptions(timeout_in_ms=300)
    with v1.Session(first) as session:
        code, _ = failure(lambda: session.run(waits, options=options))
        return [code, int(session.run(queue.size()))]


def trace(first: str, second: str) -> Any:
    with tf.device(W1):
        x = tf.random.normal([3, 3]) * 2
    with tf.device(PS):
        y = x + 1
    options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE, output_partition_graphs=True)
    metadata = v1.RunMetadata()
    with v1.Session(first) as session:
        session.run(y, options=options, run_metadata=metadata)
    traced = {stats.device.partition("/device")[0] for stats in metadata.step_stats.dev_stats}
    parts = {node.device for graph in metadata.partition_graphs for node in graph.node}
    far = {"/job:worker/replica:0/task:1", "/job:ps/replica:0/task:0"}
    return [sorted(traced & far), any("task:1" in part for part in parts)]


def synchronous_replicas(first: str, second: str) -> Any:
    """Train with two clients whose gradients are averaged; each sees every step's weights."""
    finals: dict[int, Any] = {}

    def train(task: int, target: str) -> None:
        with (
            tf.Graph().as_default(),
            v1.device(v1.train.replica_device_setter(1, worker_device=f"/job:worker/task:{task}")),
        ):
            weights = v1.get_variable("w", [2, 1], initializer=v1.constant_initializer(1.0))
            step = v1.train.get_or_create_global_step()
            inputs = np.array([[1, 2], [3, 4]], np.float32) * (task + 1)
            loss = tf.reduce_mean((tf.matmul(inputs, weights) - 1) ** 2)
            optimizer = v1.train.SyncReplicasOptimizer(
                v1.train.GradientDescentOptimizer(0.001), 2, total_num_replicas=2
            )
            update = optimizer.minimize(loss, global_step=step)
            hook = optimizer.make_session_run_hook(task == 0, num_tokens=0)
            with v1.train.MonitoredTrainingSession(
                target,
                is_chief=task == 0,
                hooks=[hook, v1.train.StopAtStepHook(last_step=6)],
                log_step_count_steps=None,
                stop_grace_period_secs=2,  # for a queue runner that waits for gradients
            ) as session:
                while not session.should_stop():
                    session.run(update)
                    if task == 0:
                        finals[task] = session.run_step_fn(
                            lambda step_context: step_context.session.run([weights, step])
                        )

    threads = [
        threading.Thread(target=train, args=one, daemon=True) for one in enumerate((first, second))
    ]
    for thread in threads:
        thread.start()
    threads[0].join(120)  # the other one waits for a token that nobody gives any more
    weights, step = finals[0]
    return [threads[0].is_alive(), int(step) >= 6, bool(weights.max() < 1)]


def monitored_training(first: str, second: str) -> Any:
    with v1.device(v1.train.replica_device_setter(1, worker_device=W0)):
        step = v1.train.get_or_create_global_step()
        weights = v1.get_variable("m", [3, 1], initializer=v1.constant_initializer(0.5))
        inputs = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
        loss = tf.reduce_mean((tf.matmul(inputs, weights) - [[1.0], [2.0]]) ** 2)
        train = v1.train.AdamOptimizer(0.1).minimize(loss, global_step=step)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {"checkpoint_dir": folder, "log_step_count_steps": None}
        hooks = [v1.train.StopAtStepHook(last_step=8)]
        with v1.train.MonitoredTrainingSession(first, hooks=hooks, **options) as session:
            while not session.should_stop():
                found.append(round(float(session.run([loss, train])[0]), 3))
        with v1.train.MonitoredTrainingSession(second, is_chief=False, **options) as session:
            found += [int(session.run(step)), round(float(session.run(loss)), 3)]
    return found


def reset(first: str, second: str) -> Any:
    with tf.device(PS):
        state = v1.get_variable("kept", [], initializer=v1.constant_initializer(3.0))
    with v1.Session(first) as session:
        session.run(v1.global_variables_initializer())
    with v1.Session(second) as session:
        before = float(session.run(state))
    v1.Session.reset(first)
    with v1.Session(second) as session:
        return [before, failure(lambda: session.run(state))[0]]


PARTS = [
    *(devices, tasks, shared_variables, shared_queue, barrier, control_flow_v1, control_flow_v2),
    *(
        partial_runs,
        callables,
        functions,
        collectives,
        errors,
        nowhere,
        timeout,
        trace,
        synchronous_replicas,
        monitored_training,
        reset,
    ),
]


def main(first: str, second: str) -> None:
    outcome: dict[str, Any] = {}
    for part in PARTS:
        with tf.Graph().as_default():
            try:
                outcome[part.__name__] = part(first, second)
            except (tf.errors.OpError, RuntimeError) as error:  # of one part: the others still tell
                outcome[part.__name__] = f"{type(error).__name__}: {error}"
    print("RESULT " + json.dumps(outcome, default=repr), flush=True)
    os._exit(0)  # threads that wait for ever would keep the process


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        cluster, job, task = json.loads(sys.argv[2]), sys.argv[3], int(sys.argv[4])
        config = v1.ConfigProto()
        config.experimental.collective_group_leader = "/job:worker/replica:0/task:0"
        server = tf.distribute.Server(cluster, job_name=job, task_index=task, config=config)
        print("READY " + server.target.removeprefix("grpc://"), flush=True)
        server.join()
    else:
        main(*sys.argv[1:3])
