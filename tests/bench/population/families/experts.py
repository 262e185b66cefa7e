"""Mixtures of experts, and graphs that route rows by value."""

from __future__ import annotations

import tensorflow as tf

from population.layers import dense, integers, numbers, placeholder, weights
from population.registry import Built, case, each


@case("partition_stitch_{experts}_b{batch}", each(experts=[2, 8], batch=[16, 256]))
def partition_stitch(experts: int, batch: int) -> Built:
    value = numbers(batch, 32)
    x = placeholder("x", value)
    route = tf.argmax(dense(x, experts), 1, output_type=tf.int32)
    rows = tf.dynamic_partition(x, route, experts)
    places = tf.dynamic_partition(tf.range(batch), route, experts)
    outs = [tf.nn.relu(tf.matmul(part, weights(32, 32))) for part in rows]
    return Built({"x": value}, [tf.dynamic_stitch(places, outs)])


@case("soft_mixture_{experts}", each(experts=[4, 16]))
def soft_mixture(experts: int) -> Built:
    value = numbers(64, 48)
    x = placeholder("x", value)
    gates = tf.nn.softmax(dense(x, experts))
    outs = tf.stack([dense(x, 32, tf.nn.relu) for _ in range(experts)], 1)
    return Built({"x": value}, [tf.reduce_sum(gates[:, :, None] * outs, 1)])


@case("capacity_dispatch_b{batch}", each(batch=[32, 256]))
def capacity(batch: int) -> Built:
    value = numbers(batch, 32)
    x = placeholder("x", value)
    gates = tf.nn.softmax(dense(x, 4))
    chosen = tf.one_hot(tf.argmax(gates, 1), 4)
    place = tf.cumsum(chosen, 0, exclusive=True) * chosen
    slots = tf.one_hot(tf.cast(tf.reduce_sum(place, 1), tf.int32), batch // 2)
    dispatch = chosen[:, :, None] * slots[:, None]
    inputs = tf.einsum("bec,bd->ecd", dispatch, x)
    outs = tf.nn.relu(tf.einsum("ecd,edf->ecf", inputs, weights(4, 32, 32)))
    return Built({"x": value}, [tf.einsum("bec,ecf->bf", dispatch * gates[:, :, None], outs)])


@case("unique_and_counts_{count}", each(count=[50, 5000]))
def unique(count: int) -> Built:
    value = integers(count // 3, count)
    found, index, counts = tf.unique_with_counts(placeholder("x", value))
    return Built({"x": value}, [found, index, counts])


@case("where_gather_{count}", each(count=[64, 8192]))
def where(count: int) -> Built:
    value = numbers(count)
    x = placeholder("x", value)
    index = tf.where(x > 0.0)
    rows = tf.gather_nd(x, index)
    return Built({"x": value}, [tf.scatter_nd(index, tf.sqrt(rows), [count]), index])


@case("switch_routes")
def switch_routes() -> Built:
    value = numbers(8, 32)
    x = placeholder("x", value)
    for i in range(10):
        kernel = weights(32, 32)
        x = tf.cond(
            tf.reduce_sum(x) > float(i % 3 - 1),
            lambda x=x, kernel=kernel: tf.tanh(tf.matmul(x, kernel)),
            lambda x=x: x * 0.5,
        )
    return Built({"x": value}, [x])
