"""Narrow types: bfloat16, float16, 8-bit integers."""

from __future__ import annotations

from functools import partial

import tensorflow as tf

from population.layers import conv, dense, images, numbers, placeholder, transformer, weights
from population.registry import Built, case, each

TYPES = ["bfloat16", "float16"]


@case("mlp_{dtype}_b{batch}", each(dtype=TYPES, batch=[1, 64]), rtol=5e-2, atol=5e-2)
def mlp(dtype: str, batch: int) -> Built:
    value = numbers(batch, 256)
    x, make = tf.cast(placeholder("x", value), dtype), partial(weights, dtype=dtype)
    for _ in range(3):
        x = dense(x, 256, tf.nn.relu, make)
    return Built({"x": value}, [tf.cast(dense(x, 10, make=make), tf.float32)])


@case("conv_{dtype}", each(dtype=TYPES), rtol=5e-2, atol=5e-2)
def narrow_conv(dtype: str) -> Built:
    value = images(2, 32, 32, 16)
    x = tf.cast(placeholder("x", value), dtype)
    for _ in range(2):
        x = conv(x, 16, make=partial(weights, dtype=dtype))
    return Built({"x": value}, [tf.cast(x, tf.float32)])


@case("transformer_{dtype}", each(dtype=TYPES), rtol=1e-1, atol=1e-1)
def narrow_transformer(dtype: str) -> Built:
    value = numbers(2, 32, 64)
    x = tf.cast(placeholder("x", value), dtype)
    x = transformer(x, 4, make=partial(weights, dtype=dtype))
    return Built({"x": value}, [tf.cast(x, tf.float32)])


@case("elementwise_{dtype}_{count}", each(dtype=TYPES, count=[64, 100000]), rtol=5e-2, atol=5e-2)
def elementwise(dtype: str, count: int) -> Built:
    value = numbers(count)
    x = tf.cast(placeholder("x", value), dtype)
    for _ in range(5):
        x = tf.tanh(x * tf.cast(1.1, dtype) + tf.cast(0.1, dtype))
    return Built({"x": value}, [tf.cast(x, tf.float32)])


@case("fake_quantized_b{batch}", each(batch=[1, 32]), rtol=2e-2, atol=5e-2)
def fake_quantized(batch: int) -> Built:
    value = numbers(batch, 64)
    x = placeholder("x", value)
    for _ in range(3):
        x = tf.quantization.fake_quant_with_min_max_args(dense(x, 64, tf.nn.relu), 0.0, 6.0)
    return Built({"x": value}, [x])


@case("integer_products")
def integer_products() -> Built:
    value = (numbers(64, 64) * 20).astype("int32")
    x = placeholder("x", value)
    return Built({"x": value}, [tf.matmul(x, x, transpose_b=True), tf.cumsum(x, 1)])
