"""Queues, staging areas, accumulators and datasets that run within a step."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from population.layers import F32, numbers, placeholder, tf1
from population.registry import Built, case, each


@case("fifo_{rows}", each(rows=[4, 64]))
def fifo(rows: int) -> Built:
    value = numbers(rows, 16)
    queue = tf1.FIFOQueue(2 * rows, [F32, tf.int32], [[16], []])
    with tf.control_dependencies([queue.enqueue_many([placeholder("x", value), tf.range(rows)])]):
        batch, ids = queue.dequeue_many(rows)
    return Built({"x": value}, [tf.tanh(batch), ids])


@case("mixed_queues")
def mixed_queues() -> Built:
    value = numbers(20, 8)
    first = tf1.FIFOQueue(40, [F32], [[8]])
    second = tf1.PaddingFIFOQueue(40, [F32], [[None]])
    with tf.control_dependencies([first.enqueue_many([placeholder("x", value)])]):
        rows = [first.dequeue() for _ in range(20)]
    puts = [second.enqueue([row[: 2 + i % 5]]) for i, row in enumerate(rows)]
    with tf.control_dependencies(puts):
        padded = second.dequeue_many(20)
    return Built({"x": value}, [tf.shape(padded), tf.reduce_sum(padded) * 0])


@case("priority_queue")
def priority_queue() -> Built:
    value = np.arange(32, dtype=np.int64)[::-1].copy()
    queue = tf1.PriorityQueue(64, [F32], [[]])
    fed = placeholder("x", value)
    with tf.control_dependencies([queue.enqueue_many([fed, tf.cast(fed, F32)])]):
        keys, values = queue.dequeue_many(32)
    return Built({"x": value}, [keys, values])


@case("staging_area")
def staging() -> Built:
    value = numbers(64, 64)
    area = tf.raw_ops
    put = area.Stage(values=[placeholder("x", value)], shared_name="s")
    with tf.control_dependencies([put]):
        back = area.Unstage(dtypes=[F32], shared_name="s")[0]
    return Built({"x": value}, [tf.nn.relu(tf.reshape(back, [64, 64]))])


@case("accumulator")
def accumulator() -> Built:
    value = numbers(128, 16)
    made = tf1.ConditionalAccumulator(F32, [128, 16])
    fed = placeholder("x", value)
    applies = [made.apply_grad(fed * float(i), 0) for i in range(4)]
    with tf.control_dependencies(applies):
        mean = made.take_grad(4)
    return Built({"x": value}, [tf.shape(mean)])


@case("dataset_map_batch_{count}", each(count=[20, 500]))
def dataset_map(count: int) -> Built:
    value = numbers(count, 4)
    data = tf.data.Dataset.from_tensor_slices(placeholder("x", value))
    data = data.map(lambda row: tf.tanh(row) * 2.0).batch(10)
    total = data.reduce(tf.zeros([4]), lambda state, rows: state + tf.reduce_sum(rows, 0))
    return Built({"x": value}, [total])


@case("dataset_window_filter")
def dataset_filter() -> Built:
    value = np.int64(200)
    data = tf.data.Dataset.range(tf1.placeholder(tf.int64, [], name="n"))
    data = data.filter(lambda i: tf.equal(i % 3, 0)).flat_map(
        lambda i: tf.data.Dataset.from_tensors(i * 2).repeat(2)
    )
    return Built({"n": np.asarray(value)}, [data.reduce(np.int64(0), lambda state, i: state + i)])


@case("table_mutable")
def mutable_table() -> Built:
    keys = np.arange(300, dtype=np.int64)
    table = tf.lookup.experimental.MutableHashTable(tf.int64, F32, -1.0)
    fed = placeholder("keys", keys)
    with tf.control_dependencies([table.insert(fed, tf.cast(fed, F32) * 0.5)]):
        found = table.lookup(fed + 5)
    return Built({"keys": keys}, [found])
