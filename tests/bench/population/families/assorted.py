"""Graphs with odd sizes and several kinds of nodes; very small, wide and deep ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from population.layers import (
    F32,
    conv,
    dense,
    images,
    integers,
    layer_norm,
    numbers,
    placeholder,
    random,
    tf1,
    variable,
    weights,
)
from population.registry import Built, case, each

TRAINED: dict[str, Any] = {"steps": 3, "rtol": 1e-2, "atol": 1e-3}


def _fed(value: Any, name: str = "x") -> tuple[Any, dict[str, Any]]:
    return placeholder(name, value), {name: value}


@case("conv1d_odd_b{batch}", each(batch=[1, 16]))
def conv1d_odd(batch: int) -> Built:
    x, feeds = _fed(numbers(batch, 333, 13))
    for width, filters, stride in ((7, 19, 2), (5, 29, 2), (3, 37, 1), (9, 23, 3)):
        x = tf.nn.relu(tf.nn.conv1d(x, weights(width, int(x.shape[2]), filters), stride, "SAME"))
    return Built(feeds, [tf.reduce_max(x, 1)])


@case("conv3d_video_b{batch}", each(batch=[1, 2]))
def conv3d_video(batch: int) -> Built:
    x, feeds = _fed(numbers(batch, 7, 45, 37, 3))
    for filters, stride in ((11, [1, 1, 2, 2, 1]), (17, [1, 2, 2, 2, 1]), (23, [1] * 5)):
        kernel = weights(3, 3, 3, int(x.shape[4]), filters)
        x = tf.nn.elu(tf.nn.conv3d(x, kernel, stride, "SAME"))
    return Built(feeds, [tf.reduce_mean(x, [1, 2, 3])])


@case("depthwise_odd_b{batch}", each(batch=[1, 8]))
def depthwise_odd(batch: int) -> Built:
    x, feeds = _fed(numbers(batch, 53, 39, 21))
    for size, stride in ((5, 1), (7, 2), (3, 1)):
        strides = [1, stride, stride, 1]
        x = tf.nn.depthwise_conv2d(x, weights(size, size, int(x.shape[3]), 1), strides, "SAME")
        x = conv(tf.nn.silu(x), int(x.shape[3]) + 14, 1)
    return Built(feeds, [tf.reduce_mean(x, [1, 2])])


@case("transposed_odd_b{batch}", each(batch=[1, 4]))
def transposed_odd(batch: int) -> Built:
    x, feeds = _fed(numbers(batch, 9, 11, 50))
    for size, filters in ((3, 31), (5, 18), (4, 7)):
        _, height, width, channels = (int(one) for one in x.shape)
        kernel = weights(size, size, filters, channels)
        shape = [batch, 2 * height, 2 * width, filters]
        x = tf.nn.leaky_relu(tf.nn.conv2d_transpose(x, kernel, shape, 2))
    return Built(feeds, [tf.tanh(x)])


@case("strided_odd_b{batch}", each(batch=[1, 4]))
def strided_odd(batch: int) -> Built:
    x, feeds = _fed(images(batch, 151, 117, 5))
    for size, filters, stride in ((5, 18, 3), (3, 33, 2), (4, 47, 2)):
        x = conv(x, filters, size, stride)
    return Built(feeds, [x])


@case("channels_first_convnet")
def channels_first() -> Built:
    value = numbers(2, 3, 48, 48)
    x, feeds = _fed(value)
    x = tf.transpose(x, [0, 2, 3, 1])
    for filters in (16, 32):
        x = tf.transpose(conv(x, filters), [0, 3, 1, 2])
        x = tf.transpose(x / (1e-3 + tf.reduce_max(tf.abs(x), [2, 3], keepdims=True)), [0, 2, 3, 1])
    return Built(feeds, [x])


@case("relative_attention_b{batch}", each(batch=[1, 8]))
def relative_attention(batch: int) -> Built:
    length, heads, width = 40, 4, 16
    x, feeds = _fed(numbers(batch, length, heads * width))
    keep = (random.uniform(size=(batch, length)) < 0.8).astype(np.bool_)
    mask = placeholder("mask", keep)
    query, key, value = (
        tf.reshape(
            tf.einsum("bld,de->ble", x, weights(heads * width, heads * width)),
            [batch, length, heads, width],
        )
        for _ in range(3)
    )
    offsets = tf.range(length)[:, None] - tf.range(length)[None, :] + length - 1
    near = tf.gather(weights(2 * length - 1, width), offsets)
    scores = tf.einsum("bqhd,bkhd->bhqk", query, key) + tf.einsum("bqhd,qkd->bhqk", query, near)
    scores = tf.where(mask[:, None, None, :], scores / 4.0, tf.fill(tf.shape(scores), -1e9))
    mixed = tf.einsum("bhqk,bkhd->bqhd", tf.nn.softmax(scores), value)
    out = layer_norm(tf.reshape(mixed, [batch, length, heads * width]) + x)
    return Built(feeds | {"mask": keep}, [out])


@case("normalizations_b{batch}", each(batch=[1, 8]))
def normalizations(batch: int) -> Built:
    x, feeds = _fed(numbers(batch, 31, 29, 24))
    groups = tf.reshape(x, [batch, 31, 29, 4, 6])
    outs = []
    for value, axes in ((x, [3]), (x, [1, 2]), (groups, [1, 2, 4])):
        mean, variance = tf.nn.moments(value, axes, keepdims=True)
        normal = (value - mean) * tf.math.rsqrt(variance + 1e-5)
        outs.append(tf.reshape(normal, x.shape) * weights(24) + weights(24))
    return Built(feeds, [tf.add_n(outs)])


@case("gru_stack_{control}_b{batch}", each(control=["v1", "v2"], batch=[1, 32]))
def gru_stack(control: str, batch: int) -> Built:
    length, units = 40, 24
    x, feeds = _fed(numbers(length, batch, 10))
    (tf1.disable_control_flow_v2 if control == "v1" else tf1.enable_control_flow_v2)()
    for _ in range(2):
        width = int(x.shape[2])
        gates, candidate = weights(width + units, 2 * units), weights(width + units, units)
        read = tf.TensorArray(F32, length, element_shape=[batch, width]).unstack(x)
        outs = tf.TensorArray(F32, length, element_shape=[batch, units])

        def body(
            t: Any,
            h: Any,
            outs: Any,
            read: Any = read,
            gates: Any = gates,
            candidate: Any = candidate,
        ) -> Any:
            here = read.read(t)
            reset, update = tf.split(tf.sigmoid(tf.matmul(tf.concat([here, h], 1), gates)), 2, 1)
            new = tf.tanh(tf.matmul(tf.concat([here, reset * h], 1), candidate))
            h = update * h + (1 - update) * new
            return t + 1, h, outs.write(t, h)

        start = [0, tf.zeros([batch, units]), outs]
        x = tf.while_loop(lambda t, *_: t < length, body, start)[2].stack()
    tf1.disable_control_flow_v2()
    return Built(feeds, [x[-1]])


@case("beam_decoder_{beams}", each(beams=[4]))
def beam_decoder(beams: int) -> Built:
    words, units, steps = 120, 20, 25
    x, feeds = _fed(numbers(beams, units))
    table, cell, project = (
        weights(words, units) * 5.0,
        weights(2 * units, units),
        weights(units, words),
    )

    def body(t: Any, state: Any, token: Any, scores: Any, outs: Any) -> Any:
        state = tf.tanh(tf.matmul(tf.concat([tf.gather(table, token), state], 1), cell))
        total = scores[:, None] + tf.nn.log_softmax(tf.matmul(state, project))
        scores, flat = tf.math.top_k(tf.reshape(total, [-1]), beams)
        parent, token = flat // words, flat % words
        return t + 1, tf.gather(state, parent), token, scores, outs.write(t, token)

    begin = [0, x, tf.zeros([beams], tf.int32), tf.zeros([beams]), tf1.TensorArray(tf.int32, steps)]
    loop = tf1.while_loop(lambda t, *_: t < steps, body, begin)
    return Built(feeds, [loop[3], loop[4].stack()])


@case("bag_of_words_b{batch}", each(batch=[8, 512]))
def bag_of_words(batch: int) -> Built:
    ids, rows = integers(5000, 12 * batch), np.sort(integers(batch, 12 * batch))
    inputs = placeholder("ids", ids), placeholder("rows", rows)
    x = tf.math.unsorted_segment_sum(
        tf.gather(weights(5000, 32) * 9.0, inputs[0]), inputs[1], batch
    )
    x = tf.concat(
        [x, tf.math.unsorted_segment_max(tf.gather(weights(5000, 8), inputs[0]), inputs[1], batch)],
        1,
    )
    x = tf.maximum(x, -9.0)
    return Built({"ids": ids, "rows": rows}, [tf.nn.softmax(dense(dense(x, 24, tf.nn.relu), 7))])


@case("dispatched_experts_b{batch}", each(batch=[16, 256]))
def dispatched_experts(batch: int) -> Built:
    experts, width, capacity = 6, 32, 2 * batch // 6 + 1
    x, feeds = _fed(numbers(batch, width))
    gates = tf.nn.softmax(dense(x, experts))
    mask = tf.one_hot(tf.argmax(gates, 1), experts)
    position = tf.cumsum(mask, 0, exclusive=True) * mask
    slots = tf.one_hot(tf.cast(tf.reduce_sum(position, 1), tf.int32), capacity)
    dispatch = mask[:, :, None] * slots[:, None, :]
    inputs = tf.einsum("bec,bd->ecd", dispatch, x)
    hidden = tf.nn.gelu(tf.matmul(inputs, weights(experts, width, 2 * width)))
    outputs = tf.matmul(hidden, weights(experts, 2 * width, width))
    combined = tf.einsum(
        "bec,ecd->bd", dispatch * tf.reduce_sum(gates * mask, 1)[:, None, None], outputs
    )
    return Built(feeds, [combined])


@case("fft_filter_b{batch}", each(batch=[1, 16]))
def fft_filter(batch: int) -> Built:
    x, feeds = _fed(numbers(batch, 1000))
    spectrum = tf.signal.rfft(x, [1024])
    gain = tf.exp(-tf.linspace(0.0, 6.0, 513))
    out = tf.signal.irfft(spectrum * tf.cast(gain, tf.complex64), [1024])[:, :1000]
    return Built(feeds, [out, tf.abs(spectrum)])


@case("least_squares_b{batch}", each(batch=[1, 30]))
def least_squares(batch: int) -> Built:
    x, feeds = _fed(numbers(batch, 40, 9))
    gram = tf.matmul(x, x, transpose_a=True) + 0.1 * tf.eye(9)
    factor = tf.linalg.cholesky(gram)
    right = tf.reduce_sum(x, 1)[..., None]
    solved = tf.linalg.cholesky_solve(factor, right)
    other = tf.linalg.solve(gram, right)
    values = tf.linalg.svd(gram, compute_uv=False)
    return Built(feeds, [solved - other, values, tf.linalg.logdet(gram)])


@case("scans_{size}", each(size=[50, 20000]))
def scans(size: int) -> Built:
    x, feeds = _fed(numbers(4, size) * 0.1)
    total = tf.cumsum(x, 1)
    outs = [
        total,
        tf.cumsum(x, 1, reverse=True, exclusive=True),
        tf.math.cumulative_logsumexp(x, 1),
    ]
    return Built(feeds, [tf.add_n(outs), tf.math.cumprod(1.0 + x[:, :50], 1)], ())


@case("ranking_{size}", each(size=[30, 3000]))
def ranking(size: int) -> Built:
    x, feeds = _fed(numbers(8, size))
    order = tf.argsort(x, direction="DESCENDING", stable=True)
    best, where = tf.math.top_k(x, 10)
    ranked = tf.gather(x, order, batch_dims=1)
    gain = tf.reduce_sum(ranked[:, :10] / tf.math.log(tf.range(10, dtype=F32) + 2.0), 1)
    return Built(feeds, [gain, best, where, tf.sort(x, 1)[:, :5]])


@case("variable_updates_{size}", each(size=[20, 2000]), **TRAINED)
def variable_updates(size: int) -> Built:
    ids, value = random.permutation(4000)[:size].astype(np.int32), numbers(size, 8)
    inputs = placeholder("ids", ids), placeholder("x", value)
    table, count = variable(4000, 8), variable(4000, 1)
    moved = tf1.scatter_update(table, inputs[0], 0.9 * tf.gather(table, inputs[0]) + inputs[1])
    with tf.control_dependencies([moved]):
        added = tf1.scatter_add(count, inputs[0], tf.ones([size, 1]))
    with tf.control_dependencies([added]):
        out = tf.gather(table, inputs[0]) / (1.5 + tf.abs(tf.gather(count, inputs[0])))
    return Built({"ids": ids, "x": value}, [out])


@case("quantized_mlp_b{batch}", each(batch=[1, 32]))
def quantized_mlp(batch: int) -> Built:
    value = random.integers(-100, 100, (batch, 64)).astype(np.int8)
    x, feeds = _fed(value)
    for units in (96, 64, 10):
        kernel = tf.constant(random.integers(-100, 100, (int(x.shape[1]), units)).astype(np.int8))
        total = tf.matmul(tf.cast(x, tf.int32), tf.cast(kernel, tf.int32))
        scaled = tf.round(tf.cast(total, F32) * 0.003)
        x = tf.cast(tf.clip_by_value(scaled, -127.0, 127.0), tf.int8)
    return Built(feeds, [tf.cast(x, tf.int32)])


@case("heat_equation_{size}", each(size=[24, 200]))
def heat_equation(size: int) -> Built:
    x, feeds = _fed(numbers(size, size, dtype="float64"))
    for _ in range(20):
        inner = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4.0 * x[1:-1, 1:-1]
        x = x + 0.1 * tf.pad(inner, [[1, 1], [1, 1]])
    return Built(feeds, [x])


@case("warped_images_b{batch}", each(batch=[1, 8]), atol=2e-3)
def warped_images(batch: int) -> Built:
    x, feeds = _fed(images(batch, 47, 63, 3))
    rows = tf.range(47, dtype=F32)[:, None] + 2.0 * tf.sin(tf.range(63, dtype=F32) / 5.0)[None, :]
    low = tf.clip_by_value(tf.floor(rows), 0.0, 45.0)
    part = tf.clip_by_value(rows - low, 0.0, 1.0)[None, :, :, None]
    columns = tf.tile(tf.range(63)[None, :], [47, 1])
    index = tf.tile(tf.stack([tf.cast(low, tf.int32), columns], 2)[None], [batch, 1, 1, 1])
    below = index + tf.constant([1, 0])
    out = (
        tf.gather_nd(x, index, batch_dims=1) * (1 - part)
        + tf.gather_nd(x, below, batch_dims=1) * part
    )
    return Built(feeds, [tf.image.resize(out, [33, 41])])


@case("random_pipeline_{size}", each(size=[100, 50000]))
def random_pipeline(size: int) -> Built:
    seed = np.array([3, 5], np.int32)
    fed = placeholder("seed", seed)
    normal = tf.random.stateless_normal([size], fed)
    uniform = tf.random.stateless_uniform([size], fed + 1)
    kept = tf.where(uniform < 0.7, normal, tf.zeros_like(normal))
    return Built({"seed": seed}, [tf.reduce_mean(kept), tf.reduce_max(kept), kept[:10]])


@case("train_cnn_b{batch}", each(batch=[2, 24]), **TRAINED)
def train_cnn(batch: int) -> Built:
    value, labels = images(batch, 33, 27, 3), integers(7, batch)
    x = placeholder("x", value)
    for filters, stride in ((9, 1), (14, 2), (21, 2)):
        x = tf.nn.relu(tf.nn.conv2d(x, variable(3, 3, int(x.shape[3]), filters), stride, "SAME"))
        x = x * tf.math.rsqrt(tf.reduce_mean(x * x, 3, keepdims=True) + 1e-3)
    logits = dense(tf.reduce_mean(x, [1, 2]), 7, make=variable)
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=placeholder("labels", labels), logits=logits
        )
    )
    train = tf1.train.AdamOptimizer(1e-3).minimize(loss)
    return Built({"x": value, "labels": labels}, [loss], (train,))


@case("ten_nodes")
def ten_nodes() -> Built:
    x, feeds = _fed(numbers(1, 4))
    return Built(feeds, [tf.sigmoid(dense(tf.nn.relu(x * 2.0 + 1.0), 1))])


@case("one_product_b1")
def one_product() -> Built:
    x, feeds = _fed(numbers(1, 300))
    return Built(feeds, [tf.matmul(x, weights(300, 300))])


@case("branches_{count}", each(count=[1000]))
def branches(count: int) -> Built:
    x, feeds = _fed(numbers(8))
    parts = [tf.tanh(x * float(i % 17) + weights(8)) - 0.5 for i in range(count)]
    return Built(feeds, [tf.add_n(parts)])


@case("deep_chain_{count}", each(count=[500]))
def deep_chain(count: int) -> Built:
    x, feeds = _fed(numbers(16, 16) * 0.1)
    for i in range(count):
        x = tf.sin(x + 0.1) if i % 2 else tf.reshape(x * 1.01, [16, 16])
    return Built(feeds, [x])


@case("feeds_and_fetches_{count}", each(count=[100]))
def feeds_and_fetches(count: int) -> Built:
    values = [numbers(5) for _ in range(count)]
    fed = [placeholder(f"x{i}", value) for i, value in enumerate(values)]
    outs = [tf.nn.relu(x) + y for x, y in zip(fed, fed[1:] + fed[:1], strict=True)]
    return Built({f"x{i}": value for i, value in enumerate(values)}, outs)


@case("large_constants_{count}", each(count=[8]))
def large_constants(count: int) -> Built:
    x, feeds = _fed(numbers(1, 1000))
    for _ in range(count):
        x = tf.tanh(tf.matmul(x, weights(1000, 1000)))
    return Built(feeds, [x])


@case("words_beside_numbers_b{batch}", each(batch=[1, 64]))
def words_beside_numbers(batch: int) -> Built:
    words = np.array([f"word {i % 7} of {i}".encode() for i in range(batch)], object)
    value = numbers(batch, 20)
    text, x = placeholder("words", words), placeholder("x", value)
    bucket = tf.strings.to_hash_bucket_fast(tf.strings.lower(text), 100)
    length = tf.cast(tf.strings.length(text), F32)[:, None]
    features = tf.concat([x, tf.gather(weights(100, 12), bucket), length], 1)
    label = tf.gather(tf.constant(["no", "yes", "maybe"]), tf.argmax(dense(features, 3), 1))
    return Built(
        {"words": words, "x": value},
        [dense(features, 5), tf.cast(tf.strings.length(label), tf.int32)],
    )


@case("control_chain_{count}", each(count=[60]), steps=3)
def control_chain(count: int) -> Built:
    x, feeds = _fed(numbers(4))
    held = variable(4)
    last = []
    for i in range(count):
        with tf.control_dependencies(last):
            step = (
                tf1.assign(held, 0.9 * held + x) if i % 3 == 0 else tf1.assign_add(held, x * 0.01)
            )
            last = [step]
    with tf.control_dependencies(last):
        return Built(feeds, [held.read_value()])


@case("assign_many_{count}", each(count=[200]), steps=3)
def assign_many(count: int) -> Built:
    x, feeds = _fed(numbers(6))
    made = [variable(6) for _ in range(count)]
    moved = [tf1.assign(one, 0.5 * one + x) for one in made]
    with tf.control_dependencies(moved):
        return Built(feeds, [tf.add_n([one.read_value() for one in made])])


@case("conv_lstm_b{batch}", each(batch=[1, 4]))
def conv_lstm(batch: int) -> Built:
    length, filters = 8, 10
    x, feeds = _fed(numbers(batch, length, 20, 18, 3))
    kernel = weights(3, 3, 3 + filters, 4 * filters)
    h = c = tf.zeros([batch, 20, 18, filters])
    for t in range(length):
        gates = tf.nn.conv2d(tf.concat([x[:, t], h], 3), kernel, 1, "SAME")
        i, j, f, o = tf.split(gates, 4, 3)
        c = tf.sigmoid(f + 1.0) * c + tf.sigmoid(i) * tf.tanh(j)
        h = tf.sigmoid(o) * tf.tanh(c)
    return Built(feeds, [h])


@case("graph_convolution_{nodes}", each(nodes=[60, 2000]))
def graph_convolution(nodes: int) -> Built:
    edges = integers(nodes, 2, 6 * nodes)
    x, feeds = _fed(numbers(nodes, 24))
    ends = placeholder("edges", edges)
    degree = tf.math.unsorted_segment_sum(tf.ones([6 * nodes]), ends[1], nodes) + 1.0
    for _ in range(2):
        sent = tf.gather(x, ends[0])
        gathered = tf.math.unsorted_segment_sum(sent, ends[1], nodes) / degree[:, None]
        x = tf.nn.relu(dense(tf.concat([x, gathered], 1), 24))
    return Built(feeds | {"edges": edges}, [x])


@case("anomaly_forest_b{batch}", each(batch=[1, 200]))
def forest(batch: int) -> Built:
    x, feeds = _fed(numbers(batch, 12))
    scores = []
    for _ in range(30):
        index = tf.zeros([batch], tf.int32)
        features, limits = tf.constant(integers(12, 63)), tf.constant(numbers(63))
        for _ in range(5):
            chosen = tf.gather(x, tf.gather(features, index), batch_dims=1)
            index = 2 * index + 1 + tf.cast(chosen > tf.gather(limits, index), tf.int32)
        scores.append(tf.gather(tf.constant(numbers(63)), index))
    return Built(feeds, [tf.add_n(scores) / 30.0])


@case("kmeans_{points}", each(points=[100, 5000]))
def kmeans(points: int) -> Built:
    x, feeds = _fed(numbers(points, 5))
    centers = x[:8]
    for _ in range(5):
        distance = tf.reduce_sum(tf.math.squared_difference(x[:, None], centers[None]), 2)
        near = tf.argmin(distance, 1)
        total = tf.math.unsorted_segment_sum(x, near, 8)
        count = tf.math.unsorted_segment_sum(tf.ones([points]), near, 8)
        centers = total / tf.maximum(count, 1.0)[:, None]
    return Built(feeds, [centers, tf.reduce_min(distance, 1)[:10]])


@case("vae_train_b{batch}", each(batch=[16]), **TRAINED)
def vae(batch: int) -> Built:
    value, noise = numbers(batch, 60), numbers(batch, 8)
    x, drawn = placeholder("x", value), placeholder("noise", noise)
    hidden = dense(x, 40, tf.nn.elu, variable)
    mean, scale = dense(hidden, 8, make=variable), dense(hidden, 8, tf.nn.softplus, variable)
    back = dense(dense(mean + scale * drawn, 40, tf.nn.elu, variable), 60, make=variable)
    divergence = 0.5 * tf.reduce_sum(mean**2 + scale**2 - 2.0 * tf.math.log(scale + 1e-4), 1)
    loss = tf.reduce_mean(tf.reduce_sum((x - back) ** 2, 1) + divergence)
    train = tf1.train.RMSPropOptimizer(1e-3).minimize(loss)
    return Built({"x": value, "noise": noise}, [loss], (train,))


@case("float64_statistics_{rows}", each(rows=[50, 20000]))
def statistics(rows: int) -> Built:
    x, feeds = _fed(numbers(rows, 10, dtype="float64"))
    mean = tf.reduce_mean(x, 0)
    centered = x - mean
    covariance = tf.matmul(centered, centered, transpose_a=True) / float(rows)
    moments = [tf.reduce_mean(centered**k, 0) for k in (2, 3, 4)]
    return Built(feeds, [covariance, tf.stack(moments), tf.math.reduce_std(x, 1)[:10], mean])


@case("pixel_shuffle_net_b{batch}", each(batch=[1, 4]))
def pixel_shuffle(batch: int) -> Built:
    x, feeds = _fed(images(batch, 37, 53, 3))
    first = x = tf.nn.leaky_relu(conv(x, 22, 3))
    for _ in range(3):
        x = x + conv(tf.nn.leaky_relu(conv(x, 22, 3)), 22, 3)
    return Built(feeds, [tf.nn.depth_to_space(conv(x + first, 27, 3), 3)])


@case("dilated_context_b{batch}", each(batch=[1, 6]))
def dilated_context(batch: int) -> Built:
    x, feeds = _fed(images(batch, 41, 41, 11))
    parts = [
        tf.nn.relu(tf.nn.conv2d(x, weights(3, 3, 11, 13), 1, "SAME", dilations=rate))
        for rate in (1, 3, 6, 9)
    ]
    pooled = tf.tile(tf.reduce_mean(x, [1, 2], keepdims=True), [1, 41, 41, 1])
    return Built(feeds, [conv(tf.concat([*parts, pooled], 3), 19, 1)])


@case("nms_all_classes")
def nms_all() -> Built:
    corners = random.uniform(0, 0.8, (150, 2))
    boxes = np.concatenate([corners, corners + random.uniform(0.05, 0.2, (150, 2))], 1)
    boxes, scores = boxes.astype(np.float32), random.uniform(0, 1, (150, 12)).astype(np.float32)
    inputs = placeholder("boxes", boxes), placeholder("scores", scores)
    outs = [
        tf.image.non_max_suppression_padded(
            inputs[0], inputs[1][:, k], 20, 0.5, 0.3, pad_to_max_output_size=True
        )
        for k in range(12)
    ]
    return Built({"boxes": boxes, "scores": scores}, [one for pair in outs for one in pair])


@case("flow_layer_b{batch}", each(batch=[64]))
def flow(batch: int) -> Built:
    x, feeds = _fed(numbers(batch, 14))
    total = tf.zeros([batch])
    for k in range(8):
        left, right = tf.split(x if k % 2 else tf.reverse(x, [1]), 2, 1)
        scale = tf.tanh(dense(dense(left, 20, tf.nn.relu), 7))
        right = right * tf.exp(scale) + dense(dense(left, 20, tf.nn.relu), 7)
        x, total = tf.concat([left, right], 1), total + tf.reduce_sum(scale, 1)
    return Built(feeds, [x, total - 0.5 * tf.reduce_sum(x * x, 1)])


@case("n_body_{bodies}", each(bodies=[30, 400]))
def n_body(bodies: int) -> Built:
    x, feeds = _fed(numbers(bodies, 3, dtype="float64"))
    speed = tf.zeros_like(x)
    for _ in range(4):
        apart = x[None] - x[:, None]
        inverse = tf.math.rsqrt(tf.reduce_sum(apart**2, 2) + 0.01) ** 3
        speed = speed + 1e-3 * tf.reduce_sum(apart * inverse[:, :, None], 1)
        x = x + 1e-3 * speed
    return Built(feeds, [x])
