"""Elementwise functions, reductions, sorting, indexing; small and large, long loops, many nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from population.layers import integers, numbers, placeholder, tf1, weights
from population.registry import Built, case, each

SIZES = [16, 1_000_000]


@case("elementwise_{count}", each(count=SIZES))
def elementwise(count: int) -> Built:
    value = numbers(count)
    x = placeholder("x", value)
    y = tf.sqrt(tf.abs(x) + 1.0) * tf.sin(x) - tf.exp(-tf.square(x))
    return Built({"x": value}, [tf.where(y > 0, y, tf.math.erf(x)), tf.math.floor(x * 3.0)])


@case("reductions_{count}", each(count=SIZES))
def reductions(count: int) -> Built:
    value = numbers(8, count // 8)
    x = placeholder("x", value)
    moments = tf.nn.moments(x, [1])
    others = [tf.reduce_max(x, 1), tf.reduce_logsumexp(x, 1), tf.argmax(x, 1), tf.reduce_min(x, 0)]
    return Built({"x": value}, [*moments, *others])


@case("sort_and_top_{count}", each(count=[16, 50000]))
def sort(count: int) -> Built:
    value = numbers(4, count)
    x = placeholder("x", value)
    return Built({"x": value}, [tf.sort(x), tf.math.top_k(x, 10)[0], tf.argsort(x)[:, :5]])


@case("cumulative_{count}", each(count=[16, 100000]))
def cumulative(count: int) -> Built:
    value = numbers(4, count) * 0.01
    x = placeholder("x", value)
    return Built({"x": value}, [tf.cumsum(x, 1), tf.math.cumprod(1.0 + x[:, :1000], 1)])


@case("gather_scatter_{count}", each(count=[16, 50000]))
def gather_scatter(count: int) -> Built:
    value, ids = numbers(count, 8), integers(count, count)
    fed = placeholder("x", value), placeholder("ids", ids)
    rows = tf.gather(fed[0], fed[1])
    total = tf.scatter_nd(fed[1][:, None], rows, [count, 8])
    changed = tf.tensor_scatter_nd_add(fed[0], fed[1][:, None], rows)
    return Built({"x": value, "ids": ids}, [total, changed])


@case("slices_and_reshapes_{depth}", each(depth=[10, 200]))
def slices(depth: int) -> Built:
    value = numbers(12, 10)
    x = placeholder("x", value)
    for i in range(depth):
        x = tf.reshape(tf.transpose(tf.concat([x[1:], x[:1]], 0)), [12, 10]) + float(i % 3)
    return Built({"x": value}, [x])


@case("matmul_chain_{size}", each(size=[8, 64, 512]))
def matmul_chain(size: int) -> Built:
    value = numbers(size, size)
    x = placeholder("x", value)
    for _ in range(6):
        x = tf.nn.relu(tf.matmul(x, weights(size, size)))
    return Built({"x": value}, [x])


@case("einsum_{batch}", each(batch=[1, 32]))
def einsum(batch: int) -> Built:
    value = numbers(batch, 16, 4, 8)
    x = placeholder("x", value)
    scores = tf.einsum("blhd,bmhd->bhlm", x, x)
    return Built({"x": value}, [tf.einsum("bhlm,bmhd->blhd", tf.nn.softmax(scores), x)])


@case("broadcasts_{count}", each(count=[16, 2000]))
def broadcasts(count: int) -> Built:
    value = numbers(count, 3)
    x = placeholder("x", value)
    pairs = tf.norm(x[:, None] - x[None] + 1e-3, axis=2)
    return Built(
        {"x": value}, [tf.argmin(pairs + 9.0 * tf.eye(count), 1), tf.reduce_mean(pairs, 1)]
    )


@case("loop_v1_{trips}", each(trips=[1000, 100_000]))
def loop(trips: int) -> Built:
    value, count = np.asarray(np.float32(0.5)), np.asarray(np.int32(trips))
    x, n = placeholder("x", value), placeholder("n", count)
    _, y = tf1.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * 0.999 + x), [0, x])
    return Built({"x": value, "n": count}, [y])


@case("nested_loops")
def nested_loops() -> Built:
    value = numbers(6, 6)
    x = placeholder("x", value)

    def inner(_: Any, y: Any) -> Any:
        return tf1.while_loop(lambda j, _: j < 20, lambda j, y: (j + 1, y * 0.9 + x), [0, y])[1]

    _, y = tf1.while_loop(lambda i, _: i < 15, lambda i, y: (i + 1, inner(i, y)), [0, x])
    return Built({"x": value}, [y])


@case("many_nodes_{count}", each(count=[3000, 20000]))
def many_nodes(count: int) -> Built:
    value = numbers(32)
    x = placeholder("x", value)
    rows = [x + float(i) for i in range(20)]
    for i in range(count // 2):
        rows[i % 20] = tf.tanh(rows[(i * 7) % 20]) + rows[i % 20]
    return Built(
        {"x": value},
        [tf.add_n(rows) * 0.001],
    )


@case("two_towers")
def two_towers() -> Built:
    value = numbers(64, 64)
    x = placeholder("x", value)
    towers = [x, x]
    for _ in range(10):
        towers = [tf.tanh(tf.matmul(tower, weights(64, 64))) for tower in towers]
    return Built({"x": value}, [towers[0] - towers[1]])
