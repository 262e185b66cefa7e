"""Random training programs of TensorFlow 1.x.

A program has a model, in part with a variable in slices, one or two optimizers, a decay, clipped
gradients, averages and a saver.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class TrainingProgram:
    """A graph of TensorFlow and the names of the nodes to run."""

    graph: Any
    start: str
    step: str
    loss: str
    variables: list[str]
    saver: Any
    feeds: list[dict[str, Any]]


def learning_rate(tf: Any, draw: random.Random, step: Any) -> Any:
    train = tf.compat.v1.train
    rate = draw.choice([0.05, 0.2])
    return draw.choice(
        [
            lambda: rate,
            lambda: train.exponential_decay(rate, step, 3, 0.7, staircase=draw.random() < 0.5),
            lambda: train.cosine_decay(rate, step, 5, 0.1),
            lambda: train.cosine_decay_restarts(rate, step, 2),
            lambda: train.linear_cosine_decay(rate, step, 5),
            lambda: train.piecewise_constant(step, [2, 4], [rate, rate / 2, rate / 4]),
            lambda: train.polynomial_decay(rate, step, 4, 0.01, 0.5, cycle=draw.random() < 0.5),
            lambda: train.inverse_time_decay(rate, step, 2, 0.5),
            lambda: train.natural_exp_decay(rate, step, 2, 0.5),
        ]
    )()


def optimizer(tf: Any, draw: random.Random, rate: Any) -> Any:
    train = tf.compat.v1.train
    return draw.choice(
        [
            lambda: train.GradientDescentOptimizer(rate),
            lambda: train.MomentumOptimizer(rate, 0.9, use_nesterov=draw.random() < 0.5),
            lambda: train.AdagradOptimizer(rate),
            lambda: train.AdadeltaOptimizer(rate),
            lambda: train.AdamOptimizer(rate, epsilon=1e-4),
            lambda: train.RMSPropOptimizer(rate, momentum=0.5, centered=draw.random() < 0.5),
            lambda: train.FtrlOptimizer(rate, l1_regularization_strength=0.01),
            lambda: train.ProximalGradientDescentOptimizer(rate, 0.01, 0.01),
            lambda: train.ProximalAdagradOptimizer(rate, l2_regularization_strength=0.01),
            lambda: train.AdagradDAOptimizer(rate, step_of(tf), l1_regularization_strength=0.01),
        ]
    )()


def step_of(tf: Any) -> Any:
    return tf.compat.v1.train.get_or_create_global_step()


def clipped(tf: Any, draw: random.Random, pairs: list[Any]) -> list[Any]:
    """Return gradients with their variables, clipped or not."""
    gradients, variables = [g for g, _ in pairs], [v for _, v in pairs]
    if any(g is None for g in gradients) or draw.random() < 0.4:
        return pairs
    limit = draw.choice([0.05, 0.5])
    dense = [tf.convert_to_tensor(g) for g in gradients]
    made = draw.choice(
        [
            lambda: tf.clip_by_global_norm(gradients, limit)[0],
            lambda: [tf.clip_by_norm(g, limit) for g in gradients],
            lambda: [tf.clip_by_norm(g, limit, axes=[0]) for g in dense],
            lambda: [tf.clip_by_value(g, -limit, limit) for g in gradients],
            lambda: [tf.compat.v1.clip_by_average_norm(g, limit) for g in dense],
        ]
    )()
    return list(zip(made, variables, strict=True))


def applied(tf: Any, draw: random.Random, first: Any, pairs: list[Any], step: Any) -> Any:
    """Return the update of all variables, a part of them by a second optimizer."""
    if draw.random() < 0.7:
        return first.apply_gradients(pairs, step)
    second = optimizer(tf, draw, 0.1)
    update = first.apply_gradients(pairs[:2])
    with tf.control_dependencies([update]):
        return second.apply_gradients(pairs[2:], step)


def training_program(tf: Any, seed: int) -> TrainingProgram:
    """Build the program of a seed."""
    v1, draw = tf.compat.v1, random.Random(seed)
    values = np.random.RandomState(seed)
    resource = draw.random() < 0.6
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, 3], name="x")
        ids = v1.placeholder(tf.int32, [None], name="ids")
        y = v1.placeholder(tf.float32, [None], name="y")

        def variable(name: str, *shape: int) -> Any:
            initial = values.uniform(-0.5, 0.5, shape).astype(np.float32)
            return v1.get_variable(name, initializer=initial, use_resource=resource)

        slices = v1.fixed_size_partitioner(draw.choice([1, 2, 3])) if draw.random() < 0.3 else None
        with v1.variable_scope("model", reuse=v1.AUTO_REUSE):
            w, b = variable("w", 3, 4), variable("b", 4)
            out = variable("out", 4)
        initial = values.uniform(-0.5, 0.5, (6, 4)).astype(np.float32)

        def rows(shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
            first = partition_info.var_offset[0] if partition_info else 0
            return tf.constant(initial[first : first + shape[0]], dtype)

        with v1.variable_scope("model", partitioner=slices):
            table = v1.get_variable("table", [6, 4], initializer=rows, use_resource=resource)
        hidden = tf.tanh(tf.matmul(x, w) + b + tf.nn.embedding_lookup(table, ids))
        trips = draw.randrange(4)
        if trips:
            hidden = v1.while_loop(
                lambda i, _: i < trips, lambda i, h: (i + 1, tf.tanh(h * 0.9 + b)), [0, hidden]
            )[1]
        if draw.random() < 0.3:
            hidden = v1.cond(tf.reduce_sum(x) > 0, lambda: hidden * 1.1, lambda: tf.sin(hidden))
        error = tf.linalg.matvec(hidden, out) - y
        loss = tf.reduce_mean(draw.choice([tf.square, tf.abs])(error), name="loss")
        if draw.random() < 0.4:
            loss += 0.01 * tf.add_n([tf.nn.l2_loss(v) for v in v1.trainable_variables()])
        step = step_of(tf)
        made = optimizer(tf, draw, learning_rate(tf, draw, step))
        # Without a gate, gradients may read a reference variable after its update.
        gate = draw.randrange(3) if resource else made.GATE_GRAPH
        pairs = made.compute_gradients(loss, gate_gradients=gate)
        update = applied(tf, draw, made, clipped(tf, draw, pairs), step)
        if resource and draw.random() < 0.8:  # TensorFlow may read other variables too early
            averages = v1.train.ExponentialMovingAverage(
                0.9, step if draw.random() < 0.5 else None, zero_debias=draw.random() < 0.3
            )
            with tf.control_dependencies([update]):
                update = averages.apply(v1.trainable_variables())
        saver = v1.train.Saver(max_to_keep=None, sharded=draw.random() < 0.3)
        reads = [tf.identity(v).name for v in v1.global_variables()]
        start = v1.global_variables_initializer().name
    feeds = [
        {
            "x:0": values.uniform(-1, 1, (5, 3)).astype(np.float32),
            "ids:0": values.randint(0, 6, 5).astype(np.int32),
            "y:0": values.uniform(-1, 1, 5).astype(np.float32),
        }
        for _ in range(8)
    ]
    return TrainingProgram(graph, start, update.name, loss.name, reads, saver.saver_def, feeds)
