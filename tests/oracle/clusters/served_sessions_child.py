"""Run TensorFlow's clients against a server; print the results as JSON.

A process of its own, whose TensorFlow runs its graphs on the server. It is started once for
TensorFlow's server and once for ours: `served_sessions_child.py TARGET`. With `serve` in place of a
target it is TensorFlow's server.
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
from tensorflow.core.protobuf import config_pb2

v1 = tf.compat.v1
v1.disable_eager_execution()

TYPES = "float16 bfloat16 float64 complex64 int8 uint8 int16 uint16 uint32 uint64 bool"


def failure(action: Any) -> list[Any]:
    """Return the code of an error, and the op that the client blames."""
    try:
        action()
    except tf.errors.OpError as error:
        return [error.error_code, error.op.name if error.op is not None else None]
    return ["no error"]


def plain(value: Any) -> Any:
    array = np.asarray(value)
    return array.astype(str).tolist() if array.dtype == object else array.tolist()


def values(target: str) -> Any:
    with v1.Session(target) as session:
        x = v1.placeholder(tf.float32, [None])
        numbers = tf.constant(np.arange(100, dtype=np.int64))
        fetches = [x * 2 + 1, tf.reduce_sum(x), numbers, tf.zeros([0, 3]), tf.constant(b"a\0b")]
        return [plain(value) for value in session.run(fetches, {x: [1, 2, 3]})]


def types(target: str) -> Any:
    outcome = []
    with v1.Session(target) as session:
        for name in TYPES.split():
            dtype = tf.as_dtype(name)
            x = v1.placeholder(dtype, [2])
            found = session.run(tf.identity(x), {x: np.array([1, 0], dtype.as_numpy_dtype)})
            outcome.append([str(found.dtype), str(found.tolist())])
        text = v1.placeholder(tf.string, [2])
        outcome.append(str(session.run(tf.identity(text), {text: [b"x\0", b"yz"]}).tolist()))
    return outcome


def extend(target: str) -> Any:
    with v1.Session(target) as session:
        first = tf.constant(1)
        found = [int(session.run(first))]
        second = first + 1
        found.append(int(session.run(second)))
        square = tf.function(lambda x: x * x)
        found.append(int(session.run(square(second))))
        loop = tf.while_loop(lambda i: i < 10, lambda i: i + 1, [second])
        branch = tf.cond(second > 3, lambda: tf.constant(1), lambda: tf.constant(2))
        return found + [plain(value) for value in session.run([loop, branch])]


def variables(target: str) -> Any:
    variable = v1.get_variable("shared", [], initializer=v1.ones_initializer(), use_resource=True)
    add = variable.assign_add(2.0)
    init = variable.initializer
    with v1.Session(target) as session:
        session.run(init)
        session.run(add)
    with v1.Session(target) as session:
        found: list[Any] = [float(session.run(variable))]
    config = v1.ConfigProto(isolate_session_state=True)
    with v1.Session(target, config=config) as session:
        found.append(failure(lambda: session.run(variable)))
    v1.Session.reset(target)
    with v1.Session(target) as session:
        found.append(failure(lambda: session.run(variable)))
    return found


def reference_variables(target: str) -> Any:
    variable = v1.get_variable("ref", [], initializer=v1.ones_initializer(), use_resource=False)
    add = variable.assign_add(2.0)
    with v1.Session(target) as session:
        session.run(variable.initializer)
        session.run(add)
    with v1.Session(target) as session:
        return float(session.run(variable))


def queue(target: str) -> Any:
    shared = tf.queue.FIFOQueue(10, tf.int32, shared_name="shared_queue")
    give, take = shared.enqueue(7), shared.dequeue()
    found: list[int] = []
    with v1.Session(target) as taker, v1.Session(target) as giver:
        thread = threading.Thread(target=lambda: found.append(int(taker.run(take))))
        thread.start()
        giver.run(give)
        thread.join()
    return found


def errors(target: str) -> Any:
    with v1.Session(target) as session:
        unfed = v1.placeholder(tf.float32, [2], name="unfed")
        index = v1.placeholder_with_default(5, [])
        false = v1.placeholder_with_default(False, [])
        zero = v1.placeholder_with_default(0.0, [])
        unset = v1.get_variable("unset", [], use_resource=True)
        fetches = [
            tf.identity(unfed),
            tf.gather([1, 2], index, name="gather"),
            tf.Assert(false, ["no"], name="assert"),
            tf.linalg.inv(tf.zeros([2, 2]), name="inverse"),
            unset.read_value(),
            tf.debugging.check_numerics(1.0 / zero, "no number", name="check"),
        ]
        return [failure(lambda f=fetch: session.run(f)) for fetch in fetches]


def timeout(target: str) -> Any:
    with v1.Session(target) as session:
        take = tf.queue.FIFOQueue(10, tf.int32).dequeue()
        options = v1.RunOptions(timeout_in_ms=300)
        found = failure(lambda: session.run(take, options=options))
        return [found, int(session.run(tf.constant(3)))]


def close_in_a_step(target: str) -> Any:
    started = tf.queue.FIFOQueue(10, tf.int32, shared_name="close_started")
    with tf.control_dependencies([started.enqueue(1)]):
        take = tf.queue.FIFOQueue(10, tf.int32, shared_name="close_never").dequeue()
    has_started = started.dequeue()
    session = v1.Session(target)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(failure(lambda: session.run(take))[0]))
    thread.start()
    with v1.Session(target) as other:
        other.run(has_started)
    session.close()
    thread.join()
    return found


def partial_runs(target: str) -> Any:
    a, b, c = (v1.placeholder(tf.float32, []) for _ in range(3))
    total = a + b
    product = total * c
    with v1.Session(target) as session:
        handle = session.partial_run_setup([total, product], [a, b, c])
        found: list[Any] = [float(session.partial_run(handle, total, {a: 1, b: 2}))]
        found.append(float(session.partial_run(handle, product, {c: 6})))
        handle = session.partial_run_setup([total, product], [a, b, c])
        session.partial_run(handle, total, {a: 1, b: 2})
        for fetch, feeds in ((total, {}), (product, {a: 3})):
            found.append(failure(lambda f=fetch, d=feeds: session.partial_run(handle, f, d)))
        other = session.partial_run_setup([total, product], [a, b, c])
        found.append(failure(lambda: session.partial_run(other, product, {a: 3})))
        found.append(failure(lambda: session.partial_run("unknown", product, {a: 3})))
    return found


def callables(target: str) -> Any:
    x = v1.placeholder(tf.float32, [2], name="x")
    y = tf.multiply(x, 3.0, name="y")
    with v1.Session(target) as session:
        found: list[Any] = [plain(session.make_callable(y, [x])([1, 2]))]
        options = config_pb2.CallableOptions(feed=["x:0"], fetch=["y:0"])
        call = session._make_callable_from_options(options)
        inputs = [np.array(value, np.float32) for value in ([3, 4], [5, 6])]
        found.extend([plain(tensor) for tensor in call(value)] for value in inputs)
        options.fetch.append("unknown:0")
        found.append(failure(lambda: session._make_callable_from_options(options)))
    return found


def trace(target: str) -> Any:
    x = v1.placeholder(tf.float32, [2, 2])
    y = tf.matmul(x, tf.ones([2, 2]), name="product")
    options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE, output_partition_graphs=True)
    metadata = v1.RunMetadata()
    with v1.Session(target) as session:
        session.run(y, {x: np.ones((2, 2))}, options=options, run_metadata=metadata)
    stats = metadata.step_stats.dev_stats
    names = [node.node_name for device in stats for node in device.node_stats]
    return [any(name.startswith("product") for name in names), len(metadata.partition_graphs) > 0]


def devices(target: str) -> Any:
    with v1.Session(target) as session:
        return [device.name for device in session.list_devices() if device.device_type == "CPU"]


def monitored_training(target: str) -> Any:
    step = v1.train.get_or_create_global_step()
    weights = v1.get_variable("weights", [3, 1], initializer=v1.constant_initializer(0.5))
    inputs = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    loss = tf.reduce_mean((tf.matmul(inputs, weights) - [[1.0], [2.0]]) ** 2)
    train = v1.train.AdamOptimizer(0.1).minimize(loss, global_step=step)
    v1.summary.scalar("loss", loss)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        hooks = [v1.train.StopAtStepHook(last_step=12)]
        with v1.train.MonitoredTrainingSession(
            target,
            checkpoint_dir=folder,
            save_checkpoint_steps=5,
            save_summaries_steps=2,
            log_step_count_steps=None,
            hooks=hooks,
        ) as session:
            while not session.should_stop():
                found.append(round(float(session.run([loss, train])[0]), 3))
        v1.Session.reset(target)
        with v1.train.MonitoredTrainingSession(
            target, checkpoint_dir=folder, log_step_count_steps=None
        ) as session:
            found += [int(session.run(step)), round(float(session.run(loss)), 3)]
    return found


PARTS = [
    *(values, types, extend, variables, reference_variables, queue, errors, timeout),
    *(close_in_a_step, partial_runs, callables, trace, devices, monitored_training),
]


def main(target: str) -> None:
    outcome = {}
    for part in PARTS:
        with tf.Graph().as_default():
            outcome[part.__name__] = part(target)
    print("RESULT " + json.dumps(outcome, default=repr), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        server = tf.distribute.Server.create_local_server()
        print("READY " + server.target.removeprefix("grpc://"), flush=True)
        server.join()
    else:
        main(sys.argv[1])
