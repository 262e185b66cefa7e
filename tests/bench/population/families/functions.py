"""Functions of TensorFlow 2: nested calls, loops, conditionals, lists, many calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from population.layers import dense, integers, numbers, placeholder, tf1, weights
from population.registry import Built, case, each


@case("nested_calls_{depth}", each(depth=[3, 30]))
def nested_calls(depth: int) -> Built:
    value, kernel = numbers(8, 32), numbers(32, 32) / np.float32(6)

    @tf.function
    def block(x: Any) -> Any:
        return tf.tanh(tf.matmul(x, kernel)) + x * 0.1

    x = placeholder("x", value)
    for _ in range(depth):
        x = block(x)
    return Built({"x": value}, [x])


@case("while_v2_{trips}", each(trips=[10, 2000]))
def while_v2(trips: int) -> Built:
    value, kernel = numbers(4, 16), numbers(16, 16) / np.float32(5)

    @tf.function
    def loop(x: Any, n: Any) -> Any:
        for i in tf.range(n):
            x = tf.tanh(tf.matmul(x, kernel)) + 0.001 * tf.cast(i, tf.float32)
        return x

    count = np.asarray(np.int32(trips))
    inputs = placeholder("x", value), placeholder("n", count)
    tf1.enable_control_flow_v2()
    result = loop(*inputs)
    tf1.disable_control_flow_v2()
    return Built({"x": value, "n": count}, [result])


@case("map_fn_{rows}", each(rows=[8, 300]))
def map_fn(rows: int) -> Built:
    value = numbers(rows, 12)
    kernel = weights(12, 12)
    mapped = tf.map_fn(
        lambda row: tf.nn.softmax(tf.linalg.matvec(kernel, row)), placeholder("x", value)
    )
    return Built({"x": value}, [mapped])


@case("scan_{rows}", each(rows=[8, 300]))
def scan(rows: int) -> Built:
    value = numbers(rows, 12)
    scanned = tf.scan(lambda state, row: 0.9 * state + row, placeholder("x", value))
    return Built({"x": value}, [scanned])


@case("switch_case_{branches}", each(branches=[3, 10]))
def switch_case(branches: int) -> Built:
    value, index = numbers(16, 16), np.asarray(np.int32(2))
    x, which = placeholder("x", value), placeholder("which", index)
    tf1.enable_control_flow_v2()
    kernels = [weights(16, 16) for _ in range(branches)]
    result = tf.switch_case(which, [lambda k=k: tf.matmul(x, k) for k in kernels])
    tf1.disable_control_flow_v2()
    return Built({"x": value, "which": index}, [result])


@case("many_calls_{count}", each(count=[100, 1500]))
def many_calls(count: int) -> Built:
    value = numbers(16)

    @tf.function
    def step(x: Any, scale: Any) -> Any:
        return tf.tanh(x * scale + 0.5)

    x = placeholder("x", value)
    for i in range(count):
        x = step(x, 0.5 + 0.4 * (i % 3))
    return Built({"x": value}, [x])


@case("ragged_b{batch}", each(batch=[2, 100]))
def ragged(batch: int) -> Built:
    lengths = integers(9, batch, dtype="int64") + 1
    values = numbers(int(lengths.sum()), 4)
    fed = placeholder("values", values, [None, 4]), placeholder("lengths", lengths)
    rows = tf.RaggedTensor.from_row_lengths(*fed)
    feeds = {"values": values, "lengths": lengths}
    return Built(feeds, [tf.reduce_sum(rows, 1), rows.to_tensor(0.0)[:, :1]])


@case("vectorized_map_{rows}", each(rows=[8, 200]))
def vectorized_map(rows: int) -> Built:
    value = numbers(rows, 6, 6)
    x = placeholder("x", value)
    mapped = tf.vectorized_map(lambda m: tf.matmul(m, m) + tf.linalg.trace(m), x)
    return Built({"x": value}, [mapped])


@case("recursive_layers")
def recursive_layers() -> Built:
    value = numbers(4, 24)

    @tf.function
    def inner(x: Any) -> Any:
        return dense(x, 24, tf.nn.relu)

    @tf.function
    def outer(x: Any) -> Any:
        return inner(x) + inner(x * 0.5)

    return Built({"x": value}, [outer(outer(placeholder("x", value)))])
