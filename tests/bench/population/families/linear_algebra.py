"""Linear algebra on single matrices and on batches of small ones."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from population.layers import numbers, placeholder
from population.registry import Built, case, each

SIZES = each(size=[8, 100], batch=[1, 20])


def _positive(x: Any, size: int) -> Any:
    return tf.matmul(x, x, transpose_b=True) / float(size) + tf.eye(size)


@case("cholesky_{size}_b{batch}", SIZES)
def cholesky(size: int, batch: int) -> Built:
    value = numbers(batch, size, size)
    lower = tf.linalg.cholesky(_positive(placeholder("x", value), size))
    return Built({"x": value}, [lower, tf.reduce_sum(tf.math.log(tf.linalg.diag_part(lower)), 1)])


@case("solve_{size}_b{batch}", SIZES)
def solve(size: int, batch: int) -> Built:
    value = numbers(batch, size, size)
    x = placeholder("x", value)
    return Built(
        {"x": value},
        [tf.linalg.solve(_positive(x, size), x)],
    )


@case("triangular_{size}", each(size=[8, 200]))
def triangular(size: int) -> Built:
    value = numbers(4, size, size)
    x = placeholder("x", value)
    lower = tf.linalg.cholesky(_positive(x, size))
    return Built({"x": value}, [tf.linalg.triangular_solve(lower, x)])


@case("eigenvalues_{size}_b{batch}", each(size=[8, 60], batch=[1, 10]))
def eigenvalues(size: int, batch: int) -> Built:
    value = numbers(batch, size, size)
    return Built({"x": value}, [tf.linalg.eigvalsh(_positive(placeholder("x", value), size))])


@case("singular_values_{size}", each(size=[8, 80]))
def singular_values(size: int) -> Built:
    value = numbers(3, size, size)
    return Built({"x": value}, [tf.linalg.svd(placeholder("x", value), compute_uv=False)])


@case("determinant_inverse_{size}_b{batch}", SIZES)
def determinant(size: int, batch: int) -> Built:
    value = numbers(batch, size, size)
    matrix = _positive(placeholder("x", value), size)
    return Built({"x": value}, [tf.linalg.inv(matrix), tf.linalg.slogdet(matrix)[1]])


@case("gaussian_process")
def gaussian_process() -> Built:
    value = numbers(60, 3)
    x = placeholder("x", value)
    distance = tf.reduce_sum(tf.math.squared_difference(x[:, None], x[None]), 2)
    kernel = tf.exp(-0.5 * distance) + 0.1 * tf.eye(60)
    weights = tf.linalg.cholesky_solve(tf.linalg.cholesky(kernel), tf.reduce_sum(x, 1)[:, None])
    return Built({"x": value}, [tf.matmul(kernel, weights)])


@case("kalman_filter")
def kalman() -> Built:
    value = numbers(30, 2)
    z = placeholder("z", value)
    transition = tf.constant([[1.0, 0.1], [0.0, 1.0]])
    mean, cov, means = tf.zeros([2, 1]), tf.eye(2), []
    for t in range(30):
        mean = tf.matmul(transition, mean)
        cov = tf.matmul(tf.matmul(transition, cov), transition, transpose_b=True) + 0.01 * tf.eye(2)
        gain = tf.transpose(tf.linalg.solve(cov + tf.eye(2), cov))
        mean = mean + tf.matmul(gain, z[t][:, None] - mean)
        cov = tf.matmul(tf.eye(2) - gain, cov)
        means.append(mean)
    return Built({"z": value}, [tf.stack(means)])
