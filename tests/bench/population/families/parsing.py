"""Parsing: tf.Example, tf.SequenceExample, CSV, raw bytes, numbers."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from population.layers import dense, integers, placeholder, random, tf1
from population.registry import Built, case, each


def _feature(values: list[float] | list[int] | list[bytes]) -> tf.train.Feature:
    if isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def _examples(count: int, floats: int, lists: int) -> np.ndarray:
    rows = []
    for _ in range(count):
        feature = {f"f{i}": _feature([float(random.standard_normal())]) for i in range(floats)}
        for i in range(lists):
            feature[f"l{i}"] = _feature([int(v) + 1 for v in random.integers(0, 99, i % 5 + 1)])
        feature["word"] = _feature([b"word%d" % random.integers(1, 50)])
        message = tf.train.Example(features=tf.train.Features(feature=feature))
        rows.append(message.SerializeToString(deterministic=True))
    return np.array(rows, object)


@case("examples_dense_{floats}_b{batch}", each(floats=[5, 60], batch=[1, 64]))
def dense_examples(floats: int, batch: int) -> Built:
    value = _examples(batch, floats, 0)
    spec = {f"f{i}": tf.io.FixedLenFeature([], tf.float32) for i in range(floats)}
    parsed = tf.io.parse_example(placeholder("examples", value), spec)
    stacked = tf.stack([parsed[f"f{i}"] for i in range(floats)], 1)
    return Built({"examples": value}, [dense(stacked, 8)])


@case("examples_sparse_{lists}_b{batch}", each(lists=[4, 30], batch=[1, 64]))
def sparse_examples(lists: int, batch: int) -> Built:
    value = _examples(batch, 3, lists)
    spec = {f"l{i}": tf.io.VarLenFeature(tf.int64) for i in range(lists)}
    spec["word"] = tf.io.FixedLenFeature([], tf.string)
    parsed = tf.io.parse_example(placeholder("examples", value), spec)
    sums = [tf.sparse.reduce_sum(parsed[f"l{i}"], 1) for i in range(lists)]
    return Built({"examples": value}, [tf.add_n(sums), parsed["word"]])


@case("example_one_by_one")
def single_example() -> Built:
    value = _examples(1, 10, 5)[0]
    spec = {f"f{i}": tf.io.FixedLenFeature([], tf.float32) for i in range(10)}
    spec["l3"] = tf.io.VarLenFeature(tf.int64)
    parsed = tf.io.parse_single_example(placeholder("example", np.array(value, object)), spec)
    stacked = tf.stack([parsed[f"f{i}"] for i in range(10)])
    return Built({"example": np.array(value, object)}, [stacked, parsed["l3"].values])


@case("sequence_examples_b{batch}", each(batch=[1, 16]))
def sequence_examples(batch: int) -> Built:
    rows = []
    for _ in range(batch):
        steps = [_feature([float(v) for v in random.standard_normal(8)]) for _ in range(12)]
        lists = tf.train.FeatureLists(feature_list={"x": tf.train.FeatureList(feature=steps)})
        context = tf.train.Features(feature={"n": _feature([12])})
        message = tf.train.SequenceExample(context=context, feature_lists=lists)
        rows.append(message.SerializeToString(deterministic=True))
    value = np.array(rows, object)
    context, lists, _ = tf.io.parse_sequence_example(
        placeholder("examples", value),
        {"n": tf.io.FixedLenFeature([], tf.int64)},
        {"x": tf.io.FixedLenSequenceFeature([8], tf.float32)},
    )
    return Built({"examples": value}, [context["n"], tf.reduce_sum(lists["x"], 1)])


@case("csv_{columns}_b{batch}", each(columns=[4, 30], batch=[1, 100]))
def csv(columns: int, batch: int) -> Built:
    lines = [",".join(f"{v:.4f}" for v in row) for row in random.standard_normal((batch, columns))]
    value = np.array(lines, object)
    parsed = tf.io.decode_csv(placeholder("lines", value), [[0.0]] * columns)
    return Built({"lines": value}, [tf.stack(parsed, 1)])


@case("decode_raw_b{batch}", each(batch=[1, 64]))
def decode_raw(batch: int) -> Built:
    rows = integers(254, batch, 28 * 28, dtype="uint8") + 1
    value = np.array([row.tobytes() for row in rows], object)
    decoded = tf.io.decode_raw(placeholder("raw", value), tf.uint8)
    return Built(
        {"raw": value}, [tf.cast(tf.reshape(decoded, [batch, 28, 28]), tf.float32) / 255.0]
    )


@case("string_to_number_{count}", each(count=[8, 2000]))
def numbers_from_text(count: int) -> Built:
    value = np.array([f"{v:.6f}" for v in random.standard_normal(count)], object)
    return Built({"text": value}, [tf1.string_to_number(placeholder("text", value))])
