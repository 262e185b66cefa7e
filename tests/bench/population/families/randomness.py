"""Random numbers: stateless and stateful, and computations with them."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from population.layers import dense, numbers, placeholder, tf1
from population.registry import Built, case, each


@case("stateless_{kind}_{count}", each(kind=["normal", "uniform"], count=[100, 200000]))
def stateless(kind: str, count: int) -> Built:
    seed = np.array([3, 5], np.int32)
    draw = getattr(tf.random, f"stateless_{kind}")
    return Built({"seed": seed}, [draw([count], placeholder("seed", seed))])


@case("stateless_truncated_{count}", each(count=[100, 50000]))
def truncated(count: int) -> Built:
    seed = np.array([3, 5], np.int32)
    return Built(
        {"seed": seed}, [tf.random.stateless_truncated_normal([count], placeholder("seed", seed))]
    )


@case(
    "stateful_{kind}_{count}",
    each(kind=["normal", "uniform"], count=[100, 200000]),
    compare=["shape"],
)
def stateful(kind: str, count: int) -> Built:
    value = numbers(1)
    drawn = getattr(tf.random, kind)([count], seed=4) + placeholder("x", value)
    return Built({"x": value}, [drawn])


@case("dropout_b{batch}", each(batch=[4, 256]), compare=["shape"])
def dropout(batch: int) -> Built:
    value = numbers(batch, 128)
    x = placeholder("x", value)
    for _ in range(3):
        x = tf1.nn.dropout(dense(x, 128, tf.nn.relu), rate=0.3, seed=2)
    return Built({"x": value}, [x])


# TensorFlow's results for more rows depend on its number of threads.
@case("categorical_b{batch}", each(batch=[4, 12]))
def categorical(batch: int) -> Built:
    value, seed = numbers(batch, 100), np.array([1, 2], np.int32)
    fed = placeholder("logits", value), placeholder("seed", seed)
    return Built(
        {"logits": value, "seed": seed}, [tf.random.stateless_categorical(fed[0], 20, fed[1])]
    )


@case("shuffle_{count}", each(count=[50, 20000]), compare=["shape"])
def shuffle(count: int) -> Built:
    value = numbers(count, 2)
    return Built({"x": value}, [tf.random.shuffle(placeholder("x", value), seed=1)])


@case("reparameterised_b{batch}", each(batch=[1, 128]))
def reparameterised(batch: int) -> Built:
    value, seed = numbers(batch, 64), np.array([8, 9], np.int32)
    x, key = placeholder("x", value), placeholder("seed", seed)
    mean, spread = dense(x, 16), tf.nn.softplus(dense(x, 16))
    code = mean + spread * tf.random.stateless_normal([batch, 16], key)
    return Built({"x": value, "seed": seed}, [dense(dense(code, 64, tf.nn.relu), 64)])
