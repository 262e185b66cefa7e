"""Models of sequences: recurrent networks in loops of both versions, transformers, decoding."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from population.layers import (
    F32,
    conv,
    dense,
    integers,
    layer_norm,
    numbers,
    placeholder,
    random,
    tf1,
    transformer,
    weights,
)
from population.registry import Built, case, each


def _lstm_step(x: Any, h: Any, c: Any, kernel: Any) -> tuple[Any, Any]:
    i, j, f, o = tf.split(tf.matmul(tf.concat([x, h], 1), kernel), 4, 1)
    c = tf.sigmoid(f + 1.0) * c + tf.sigmoid(i) * tf.tanh(j)
    return tf.sigmoid(o) * tf.tanh(c), c


@case("lstm_{control}_{units}_b{batch}", each(control=["v1", "v2"], units=[16, 96], batch=[1, 32]))
def lstm(control: str, units: int, batch: int) -> Built:
    length = 60
    value = numbers(length, batch, 24)
    x = placeholder("x", value)
    kernel, zero = weights(24 + units, 4 * units), tf.zeros([batch, units])
    (tf1.disable_control_flow_v2 if control == "v1" else tf1.enable_control_flow_v2)()
    steps = tf.TensorArray(F32, length, element_shape=[batch, 24]).unstack(x)
    outs = tf.TensorArray(F32, length, element_shape=[batch, units])

    def body(t: Any, h: Any, c: Any, outs: Any) -> Any:
        h, c = _lstm_step(steps.read(t), h, c, kernel)
        return t + 1, h, c, outs.write(t, h)

    loop = tf.while_loop(lambda t, *_: t < length, body, [0, zero, zero, outs])
    tf1.disable_control_flow_v2()
    return Built({"x": value}, [loop[3].stack(), loop[1]])


@case("dynamic_rnn_{cell}_b{batch}", each(cell=["GRUCell", "LSTMCell"], batch=[1, 16]))
def dynamic_rnn(cell: str, batch: int) -> Built:
    from tf_keras.src.layers.rnn import legacy_cells

    value, lengths = numbers(batch, 50, 20), integers(40, batch) + 10
    made = getattr(legacy_cells, cell)(32)
    inputs = placeholder("x", value), placeholder("lengths", lengths)
    out, _ = tf1.nn.dynamic_rnn(made, inputs[0], sequence_length=inputs[1], dtype=F32)
    return Built({"x": value, "lengths": lengths}, [out[:, -1] * 0 + tf.reduce_sum(out, 1)])


@case(
    "transformer_{width}x{length}_b{batch}",
    each(width=[64, 256], length=[16, 128], batch=[1, 8]),
)
def encoder(width: int, length: int, batch: int) -> Built:
    value = integers(1000, batch, length)
    x = tf.gather(weights(1000, width) * 30.0, placeholder("ids", value)) + weights(length, width)
    for _ in range(2):
        x = transformer(x, 4)
    return Built({"ids": value}, [x[:, 0]])


@case("causal_decoder_b{batch}", each(batch=[1, 4]))
def causal(batch: int) -> Built:
    value = numbers(batch, 48, 64)
    x = placeholder("x", value)
    for _ in range(3):
        x = transformer(x, 8, causal=True)
    return Built({"x": value}, [tf.argmax(dense(x[:, -1], 500), 1), x])


@case("greedy_decode_{steps}", each(steps=[10, 60]))
def greedy(steps: int) -> Built:
    table, kernel, project = weights(80, 32) * 9.0, weights(64, 128), weights(32, 80)
    start = integers(80, 4)
    token = placeholder("start", start)
    zero = tf.zeros([4, 32])
    outs = tf1.TensorArray(tf.int32, steps)

    def body(t: Any, token: Any, h: Any, c: Any, outs: Any) -> Any:
        h, c = _lstm_step(tf.gather(table, token), h, c, kernel)
        token = tf.argmax(tf.matmul(h, project), 1, output_type=tf.int32)
        return t + 1, token, h, c, outs.write(t, token)

    loop = tf1.while_loop(lambda t, *_: t < steps, body, [0, token, zero, zero, outs])
    return Built({"start": start}, [loop[4].stack()])


@case("beam_search_step_{beams}", each(beams=[4, 16]))
def beam_search(beams: int) -> Built:
    scores, logits = numbers(8, beams), numbers(8, beams, 300)
    inputs = placeholder("scores", scores), placeholder("logits", logits)
    total = inputs[0][:, :, None] + tf.nn.log_softmax(inputs[1])
    best, flat = tf.math.top_k(tf.reshape(total, [8, beams * 300]), beams)
    parents = flat // 300
    state = tf.gather(inputs[1], parents, batch_dims=1)
    return Built({"scores": scores, "logits": logits}, [best, parents, flat % 300, state[:, :, :8]])


@case("text_cnn_b{batch}", each(batch=[1, 32]))
def text_cnn(batch: int) -> Built:
    value = integers(2000, batch, 70)
    x = tf.gather(weights(2000, 48) * 40.0, placeholder("ids", value))
    parts = [tf.nn.relu(tf.nn.conv1d(x, weights(k, 48, 32), 1, "VALID")) for k in (2, 3, 5)]
    x = tf.concat([tf.reduce_max(part, 1) for part in parts], 1)
    return Built({"ids": value}, [tf.nn.softmax(dense(x, 12))])


@case("wavenet_b{batch}", each(batch=[1, 4]))
def wavenet(batch: int) -> Built:
    value = numbers(batch, 200, 16)
    x = placeholder("x", value)
    for rate in (1, 2, 4, 8):
        padded = tf.pad(x, [[0, 0], [rate, 0], [0, 0]])
        gated = tf.nn.convolution(padded, weights(2, 16, 32), padding="VALID", dilations=rate)
        left, right = tf.split(gated, 2, 2)
        x = x + tf.tanh(left) * tf.sigmoid(right)
    return Built({"x": value}, [x])


@case("ctc_{kind}", each(kind=["greedy", "loss"]))
def ctc(kind: str) -> Built:
    value = numbers(40, 6, 20)
    logits = placeholder("logits", value)
    lengths = tf.constant(np.full(6, 40, np.int32))
    if kind == "greedy":
        decoded, score = tf.nn.ctc_greedy_decoder(logits, lengths)
        return Built({"logits": value}, [decoded[0].indices, decoded[0].values, score])
    labels = tf.sparse.from_dense(tf.constant(integers(18, 6, 9) + 1, tf.int32))
    loss = tf1.nn.ctc_loss(labels, logits, lengths)
    return Built({"logits": value}, [loss, tf.gradients(loss, logits)[0]])


@case("bidirectional_b{batch}", each(batch=[1, 8]))
def bidirectional(batch: int) -> Built:
    from tf_keras.src.layers.rnn import legacy_cells

    value, lengths = numbers(batch, 30, 12), integers(20, batch) + 10
    cells = [legacy_cells.LSTMCell(24), legacy_cells.LSTMCell(24)]
    inputs = placeholder("x", value), placeholder("lengths", lengths)
    outs, _ = tf1.nn.bidirectional_dynamic_rnn(*cells, *inputs, dtype=F32)
    return Built({"x": value, "lengths": lengths}, [tf.concat(outs, 2)])


@case("character_model")
def character_model() -> Built:
    value = integers(60, 2, 90)
    x = tf.gather(weights(60, 24) * 7.0, placeholder("ids", value))
    x = conv(x[:, :, None, :], 48, 3)[:, :, 0]
    return Built({"ids": value}, [layer_norm(x), tf.constant(random.integers(0, 2, 1))])
