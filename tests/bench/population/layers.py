"""Parts of graphs that several families use. All weights are random, with fixed seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
F32 = tf.float32
random = np.random.default_rng(7)


def numbers(*shape: int, dtype: str = "float32") -> Any:
    """Return normally distributed numbers."""
    return random.standard_normal(shape).astype(dtype)


def integers(high: int, *shape: int, dtype: str = "int32") -> Any:
    """Return integers in [0, high)."""
    return random.integers(0, high, shape).astype(dtype)


def images(*shape: int) -> Any:
    """Return images with coarse and fine structure, with values in [0, 1]."""
    batch, height, width, channels = shape
    coarse = random.uniform(0, 1, (batch, height // 8 + 1, width // 8 + 1, channels))
    smooth = coarse.repeat(8, axis=1).repeat(8, axis=2)[:, :height, :width]
    return (0.8 * smooth + 0.2 * random.uniform(0, 1, shape)).astype(np.float32)


def weights(*shape: int, dtype: Any = F32) -> Any:
    """Return a random constant whose deviation preserves the magnitude of activations."""
    return tf.cast(tf.constant(numbers(*shape) / np.sqrt(np.prod(shape[:-1]) or 1)), dtype)


def variable(*shape: int) -> Any:
    """Return a resource variable with the values of `weights`."""
    start = numbers(*shape) / np.float32(np.sqrt(np.prod(shape[:-1]) or 1))
    return tf1.get_variable(f"v{len(tf1.global_variables())}", initializer=start, use_resource=True)


def placeholder(name: str, value: Any, shape: Any = None) -> Any:
    """Return a placeholder for an array, by default of its shape."""
    dtype = tf.string if value.dtype == object else tf.as_dtype(value.dtype)
    return tf1.placeholder(dtype, value.shape if shape is None else shape, name=name)


def dense(x: Any, units: int, activation: Any = tf.identity, make: Any = weights) -> Any:
    """Return a fully connected layer."""
    return activation(tf.nn.bias_add(tf.matmul(x, make(int(x.shape[-1]), units)), make(units)))


def conv(x: Any, filters: int, size: int = 3, stride: int = 1, make: Any = weights) -> Any:
    """Return a convolution with bias and ReLU."""
    kernel = make(size, size, int(x.shape[-1]), filters)
    return tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, kernel, stride, "SAME"), make(filters)))


def layer_norm(x: Any) -> Any:
    """Return a layer normalization without parameters."""
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 1e-6)


def attention(x: Any, heads: int, causal: bool = False, make: Any = weights) -> Any:
    """Return self-attention over x of shape [batch, length, width]."""
    batch, length, width = (int(size) for size in x.shape)

    def split(tensor: Any) -> Any:
        parts = tf.reshape(tensor, [batch, length, heads, width // heads])
        return tf.transpose(parts, [0, 2, 1, 3])

    flat = tf.reshape(x, [batch * length, width])
    query, key, value = (split(dense(flat, width, make=make)) for _ in range(3))
    scores = tf.matmul(query, key, transpose_b=True) / float(width // heads) ** 0.5
    if causal:
        mask = tf.linalg.band_part(tf.ones([length, length], scores.dtype), -1, 0)
        scores = tf.where(mask > 0, scores, tf.constant(-1e4, scores.dtype))
    mixed = tf.transpose(tf.matmul(tf.nn.softmax(scores), value), [0, 2, 1, 3])
    result = dense(tf.reshape(mixed, [batch * length, width]), width, make=make)
    return tf.reshape(result, [batch, length, width])


def transformer(x: Any, heads: int, causal: bool = False, make: Any = weights) -> Any:
    """Return a transformer block over x of shape [batch, length, width]."""
    batch, length, width = (int(size) for size in x.shape)
    x = layer_norm(x + attention(x, heads, causal, make))
    hidden = dense(tf.reshape(x, [batch * length, width]), 4 * width, tf.nn.gelu, make)
    return layer_norm(x + tf.reshape(dense(hidden, width, make=make), [batch, length, width]))
