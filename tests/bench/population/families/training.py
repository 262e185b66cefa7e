"""Training steps: forward, backward, update; several networks and optimizers."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from population.layers import (
    conv,
    dense,
    images,
    integers,
    numbers,
    placeholder,
    tf1,
    transformer,
    variable,
)
from population.registry import Built, case, each

OPTIMIZERS = {
    "sgd": lambda: tf1.train.GradientDescentOptimizer(0.05),
    "momentum": lambda: tf1.train.MomentumOptimizer(0.02, 0.9),
    "adam": lambda: tf1.train.AdamOptimizer(1e-3),
    "adagrad": lambda: tf1.train.AdagradOptimizer(0.02),
    "rmsprop": lambda: tf1.train.RMSPropOptimizer(1e-3),
    "ftrl": lambda: tf1.train.FtrlOptimizer(0.02),
}
SPEC: dict[str, Any] = {"steps": 4, "rtol": 1e-2, "atol": 1e-3}


def _train(logits: Any, labels: Any, feeds: dict[str, Any], optimizer: str = "adam") -> Built:
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    loss = tf.reduce_mean(losses)
    return Built(feeds, [loss], (OPTIMIZERS[optimizer]().minimize(loss),))


@case("mlp_{optimizer}_b{batch}", each(optimizer=OPTIMIZERS, batch=[8, 128]), **SPEC)
def mlp(optimizer: str, batch: int) -> Built:
    value, labels = numbers(batch, 100), integers(10, batch)
    x = placeholder("x", value)
    for units in (128, 64):
        x = dense(x, units, tf.nn.relu, variable)
    feeds = {"x": value, "labels": labels}
    return _train(dense(x, 10, make=variable), placeholder("labels", labels), feeds, optimizer)


@case("convnet_{optimizer}_b{batch}", each(optimizer=["adam", "momentum"], batch=[4, 32]), **SPEC)
def convnet(optimizer: str, batch: int) -> Built:
    value, labels = images(batch, 28, 28, 1), integers(10, batch)
    x = placeholder("x", value)
    for filters in (8, 16):
        x = tf.nn.max_pool2d(conv(x, filters, make=variable), 2, 2, "SAME")
    logits = dense(tf.reshape(x, [batch, -1]), 10, make=variable)
    return _train(logits, placeholder("labels", labels), {"x": value, "labels": labels}, optimizer)


@case("train_transformer_b{batch}", each(batch=[2, 16]), **SPEC)
def train_transformer(batch: int) -> Built:
    ids, labels = integers(200, batch, 24), integers(5, batch)
    x = tf.gather(variable(200, 32), placeholder("ids", ids))
    x = transformer(x, 4, make=variable)
    logits = dense(tf.reduce_mean(x, 1), 5, make=variable)
    return _train(logits, placeholder("labels", labels), {"ids": ids, "labels": labels})


@case("train_lstm_{control}", each(control=["v1", "v2"]), **SPEC)
def train_lstm(control: str) -> Built:
    value, labels = numbers(20, 8, 12), integers(5, 8)
    x, kernel = placeholder("x", value), variable(12 + 16, 64)
    (tf1.disable_control_flow_v2 if control == "v1" else tf1.enable_control_flow_v2)()
    steps = tf.TensorArray(tf.float32, 20, element_shape=[8, 12]).unstack(x)

    def body(t: Any, h: Any, c: Any) -> Any:
        gates = tf.matmul(tf.concat([steps.read(t), h], 1), kernel)
        i, j, f, o = tf.split(gates, 4, 1)
        c = tf.sigmoid(f + 1.0) * c + tf.sigmoid(i) * tf.tanh(j)
        return t + 1, tf.sigmoid(o) * tf.tanh(c), c

    zero = tf.zeros([8, 16])
    _, h, _ = tf.while_loop(lambda t, *_: t < 20, body, [0, zero, zero])
    feeds = {"x": value, "labels": labels}
    built = _train(dense(h, 5, make=variable), placeholder("labels", labels), feeds)
    tf1.disable_control_flow_v2()
    return built


@case(
    "train_embedding_{optimizer}_b{batch}",
    each(optimizer=["adagrad", "adam", "sgd"], batch=[16, 256]),
    **SPEC,
)
def train_embedding(optimizer: str, batch: int) -> Built:
    ids, labels = integers(3000, batch, 8), integers(4, batch)
    rows = tf.nn.embedding_lookup(variable(3000, 16), placeholder("ids", ids))
    logits = dense(dense(tf.reduce_sum(rows, 1), 32, tf.nn.relu, variable), 4, make=variable)
    return _train(logits, placeholder("labels", labels), {"ids": ids, "labels": labels}, optimizer)


@case("train_autoencoder_b{batch}", each(batch=[8, 64]), **SPEC)
def train_autoencoder(batch: int) -> Built:
    value = numbers(batch, 96)
    x = placeholder("x", value)
    code = dense(dense(x, 48, tf.nn.relu, variable), 12, make=variable)
    back = dense(dense(code, 48, tf.nn.relu, variable), 96, make=variable)
    loss = tf.reduce_mean(tf.math.squared_difference(back, x))
    return Built({"x": value}, [loss], (tf1.train.AdamOptimizer(1e-3).minimize(loss),))


@case("train_batch_norm", **SPEC)
def train_batch_norm() -> Built:
    value, labels = images(16, 20, 20, 3), integers(10, 16)
    x = placeholder("x", value)
    for filters in (8, 16):
        y = tf.nn.conv2d(x, variable(3, 3, int(x.shape[3]), filters), 2, "SAME")
        scale, offset = 1.0 + variable(filters), variable(filters)
        x = tf.nn.relu(tf1.nn.fused_batch_norm(y, scale, offset)[0])
    logits = dense(tf.reduce_mean(x, [1, 2]), 10, make=variable)
    return _train(logits, placeholder("labels", labels), {"x": value, "labels": labels})


@case("train_clipped_decayed", **SPEC)
def train_clipped() -> Built:
    value, labels = numbers(32, 40), integers(6, 32)
    step = tf1.train.get_or_create_global_step()
    logits = dense(dense(placeholder("x", value), 64, tf.tanh, variable), 6, make=variable)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=placeholder("labels", labels), logits=logits
    )
    loss = tf.reduce_mean(losses)
    optimizer = tf1.train.AdamOptimizer(tf1.train.exponential_decay(0.01, step, 10, 0.9))
    gradients, variables = zip(*optimizer.compute_gradients(loss), strict=True)
    gradients, _ = tf.clip_by_global_norm(gradients, 1.0)
    train = optimizer.apply_gradients(zip(gradients, variables, strict=True), step)
    return Built({"x": value, "labels": labels}, [loss], (train,))
