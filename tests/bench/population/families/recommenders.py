"""Recommenders: sparse features, crosses, segments, interactions."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from population.layers import dense, integers, numbers, placeholder, random, tf1, weights
from population.registry import Built, case, each


def _sparse(rows: int, per_row: int, high: int) -> tuple[Any, dict[str, Any]]:
    counts = random.integers(1, per_row + 1, rows)
    indices = np.array([[row, i] for row, n in enumerate(counts) for i in range(n)], np.int64)
    values = integers(high, len(indices), dtype="int64")
    feeds = {"indices": indices, "values": values}
    shape = tf.constant([rows, per_row], tf.int64)
    inputs = placeholder("indices", indices, [None, 2]), placeholder("values", values, [None])
    return tf.SparseTensor(*inputs, shape), feeds


@case("embedding_bag_{combiner}_b{rows}", each(combiner=["sum", "mean", "sqrtn"], rows=[1, 256]))
def embedding_bag(combiner: str, rows: int) -> Built:
    ids, feeds = _sparse(rows, 12, 5000)
    table = weights(5000, 32) * 70.0
    return Built(feeds, [tf1.nn.embedding_lookup_sparse(table, ids, None, combiner=combiner)])


@case("safe_embedding_b{rows}", each(rows=[4, 128]))
def safe_embedding(rows: int) -> Built:
    ids, feeds = _sparse(rows, 8, 900)
    found = tf.nn.safe_embedding_lookup_sparse(weights(900, 16) * 30.0, ids)
    return Built(feeds, [dense(found, 8, tf.nn.relu)])


@case("dlrm_b{batch}", each(batch=[1, 64, 512]))
def dlrm(batch: int) -> Built:
    features, ids = numbers(batch, 13), integers(1000, batch, 26)
    bottom = dense(dense(placeholder("features", features), 64, tf.nn.relu), 16, tf.nn.relu)
    fed = placeholder("ids", ids)
    rows = [tf.gather(weights(1000, 16) * 30.0, fed[:, i]) for i in range(26)]
    stacked = tf.stack([bottom, *rows], 1)
    products = tf.matmul(stacked, stacked, transpose_b=True)
    pairs = np.array([i * 27 + j for i in range(27) for j in range(i)], np.int32)
    crossed = tf.gather(tf.reshape(products, [batch, 27 * 27]), pairs, axis=1)
    top = dense(tf.concat([bottom, crossed], 1), 64, tf.nn.relu)
    return Built({"features": features, "ids": ids}, [tf.sigmoid(dense(top, 1))])


@case("wide_and_deep_b{batch}", each(batch=[1, 100]))
def wide_and_deep(batch: int) -> Built:
    words = np.array([[f"w{i}" for i in row] for row in integers(500, batch, 6)], object)
    fed = placeholder("words", words)
    hashed = tf.strings.to_hash_bucket_fast(fed, 400)
    crosses = tf.strings.to_hash_bucket_fast(fed[:, :3] + "_X_" + fed[:, 3:], 700)
    wide = tf.reduce_sum(tf.gather(weights(700, 1) * 26.0, crosses), 1)
    deep = tf.reshape(tf.gather(weights(400, 8) * 20.0, hashed), [batch, 48])
    deep = dense(dense(deep, 64, tf.nn.relu), 32, tf.nn.relu)
    return Built({"words": words}, [tf.sigmoid(dense(deep, 1) + wide)])


@case("factorization_machine_b{batch}", each(batch=[8, 256]))
def factorization_machine(batch: int) -> Built:
    ids = integers(2000, batch, 20)
    rows = tf.gather(weights(2000, 16) * 45.0, placeholder("ids", ids))
    square = tf.square(tf.reduce_sum(rows, 1)) - tf.reduce_sum(tf.square(rows), 1)
    return Built({"ids": ids}, [0.5 * tf.reduce_sum(square, 1)])


@case("segments_{kind}", each(kind=["sum", "mean", "max"]))
def segments(kind: str) -> Built:
    values, ids = numbers(3000, 24), np.sort(integers(200, 3000))
    inputs = placeholder("values", values), placeholder("ids", ids)
    found = getattr(tf.math, f"segment_{kind}")(*inputs)
    other = getattr(tf.math, f"unsorted_segment_{kind}")(*inputs, 200)
    return Built({"values": values, "ids": ids}, [found, other])


@case("sparse_dense_matmul_{rows}", each(rows=[16, 512]))
def sparse_matmul(rows: int) -> Built:
    ids, feeds = _sparse(rows, 16, 16)
    product = tf.sparse.sparse_dense_matmul(tf.cast(ids, tf.float32), weights(16, 64))
    return Built(feeds, [product, tf.sparse.reduce_sum(tf.cast(ids, tf.float32), 1)])


@case("matrix_factorisation_scores")
def scores() -> Built:
    users = integers(3000, 32)
    rows = tf.gather(weights(3000, 32) * 50.0, placeholder("users", users))
    best, items = tf.math.top_k(tf.matmul(rows, weights(2000, 32) * 44.0, transpose_b=True), 50)
    return Built({"users": users}, [best, items])


@case("bucketised_features_b{batch}", each(batch=[1, 512]))
def bucketised(batch: int) -> Built:
    value = numbers(batch, 10)
    bounds = [float(x) for x in np.linspace(-2, 2, 20)]
    buckets = tf.raw_ops.Bucketize(input=placeholder("x", value), boundaries=bounds)
    rows = tf.reduce_sum(tf.one_hot(buckets, 21), 1)
    return Built({"x": value}, [dense(rows, 16, tf.nn.relu), buckets])
