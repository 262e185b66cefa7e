"""Blocks of convolutional networks: odd sizes, small channel counts, several kinds of kernels."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from population.layers import conv, dense, images, numbers, placeholder, tf1, weights
from population.registry import Built, case, each


def _image(batch: int, height: int, width: int, channels: int) -> tuple[Any, dict[str, Any]]:
    value = images(batch, height, width, channels)
    return placeholder("x", value), {"x": value}


@case("separable_{channels}_b{batch}", each(channels=[12, 48, 160], batch=[1, 8]))
def separable(channels: int, batch: int) -> Built:
    x, feeds = _image(batch, 61, 45, channels)
    for _ in range(4):
        kernel, points = weights(3, 3, channels, 1), weights(1, 1, channels, channels)
        x = tf.nn.relu6(tf.nn.separable_conv2d(x, kernel, points, [1] * 4, "SAME"))
    return Built(feeds, [tf.reduce_mean(x, [1, 2])])


@case("concatenation_b{batch}", each(batch=[1, 16]))
def concatenation(batch: int) -> Built:
    x, feeds = _image(batch, 35, 35, 64)
    for _ in range(3):
        pooled = tf.nn.avg_pool2d(x, 3, 1, "SAME")
        wide = conv(conv(conv(x, 32, 1), 48), 48)
        x = tf.concat([conv(x, 32, 1), conv(conv(x, 24, 1), 32, 5), wide, conv(pooled, 16, 1)], 3)
    return Built(feeds, [tf.reduce_mean(x, [1, 2])])


@case("small_channels_{channels}", each(channels=[1, 3, 5, 7]))
def small_channels(channels: int) -> Built:
    x, feeds = _image(4, 97, 131, channels)
    for _ in range(3):
        x = conv(x, channels + 2)
    return Built(feeds, [tf.nn.max_pool2d(x, 3, 2, "VALID")])


@case("grouped_{groups}_b{batch}", each(groups=[2, 8], batch=[1, 8]))
def grouped(groups: int, batch: int) -> Built:
    x, feeds = _image(batch, 28, 28, 64)
    for _ in range(3):
        parts = [conv(part, 64 // groups) for part in tf.split(x, groups, 3)]
        x = tf.concat(parts, 3) + x
    return Built(feeds, [tf.reduce_mean(x, [1, 2])])


@case(
    "bottlenecks_{width}_in_{groups}_b{batch}", each(width=[128, 512], groups=[4, 32], batch=[1, 4])
)
def bottlenecks(width: int, groups: int, batch: int) -> Built:
    size = 56 * 128 // width
    x, feeds = _image(batch, size, size, 2 * width)
    for _ in range(2):
        kernel = weights(3, 3, width // groups, width)
        inner = tf.nn.relu(tf.nn.conv2d(conv(x, width, 1), kernel, 1, "SAME"))
        x = x + conv(inner, 2 * width, 1)
    return Built(feeds, [tf.reduce_mean(x, [1, 2])])


@case("dilated_{rate}", each(rate=[2, 4]))
def dilated(rate: int) -> Built:
    x, feeds = _image(1, 65, 65, 32)
    for _ in range(3):
        x = tf.nn.relu(tf.nn.conv2d(x, weights(3, 3, 32, 32), 1, "SAME", dilations=rate))
    return Built(feeds, [x])


@case("strided_{size}_{stride}", each(size=[3, 7], stride=[2, 4]))
def strided(size: int, stride: int) -> Built:
    x, feeds = _image(2, 223, 223, 3)
    return Built(feeds, [conv(conv(x, 32, size, stride), 64, 3, 2)])


@case("unet_{width}_b{batch}", each(width=[8, 24], batch=[1, 4]))
def unet(width: int, batch: int) -> Built:
    x, feeds = _image(batch, 96, 96, 3)
    skips, filters = [], width
    for _ in range(3):
        x = conv(conv(x, filters), filters)
        skips.append(x)
        x, filters = tf.nn.max_pool2d(x, 2, 2, "SAME"), 2 * filters
    x = conv(x, filters)
    for skip in reversed(skips):
        filters //= 2
        kernel = weights(2, 2, filters, int(x.shape[3]))
        x = tf.nn.conv2d_transpose(x, kernel, [*skip.shape[:3], filters], 2)
        x = conv(tf.concat([x, skip], 3), filters)
    return Built(feeds, [conv(x, 2, 1)])


@case("squeeze_excite_b{batch}", each(batch=[1, 16]))
def squeeze_excite(batch: int) -> Built:
    x, feeds = _image(batch, 27, 27, 40)
    for _ in range(5):
        y = conv(x, 40)
        scale = dense(dense(tf.reduce_mean(y, [1, 2]), 10, tf.nn.relu), 40, tf.sigmoid)
        x = x + y * scale[:, None, None, :]
    return Built(feeds, [tf.reduce_mean(x, [1, 2])])


@case("channels_first_pool")
def pools() -> Built:
    x, feeds = _image(8, 55, 55, 24)
    parts = [
        tf.nn.max_pool2d(x, k, 2, "SAME") + tf.nn.avg_pool2d(x, k, 2, "SAME") for k in (2, 3, 5)
    ]
    return Built(feeds, [tf.add_n(parts), tf.nn.local_response_normalization(x)])


@case("conv3d_b{batch}", each(batch=[1, 4]))
def volume(batch: int) -> Built:
    value = numbers(batch, 9, 24, 24, 4)
    x = placeholder("x", value)
    for _ in range(2):
        x = tf.nn.relu(tf.nn.conv3d(x, weights(3, 3, 3, int(x.shape[4]), 12), [1] * 5, "SAME"))
    return Built({"x": value}, [tf.nn.max_pool3d(x, 2, 2, "SAME")])


@case("batch_norm_inference")
def batch_norm() -> Built:
    x, feeds = _image(4, 40, 40, 32)
    for _ in range(4):
        stats = [tf.abs(weights(32)) + 0.5 for _ in range(4)]
        x = conv(x, 32)
        x, _, _ = tf1.nn.fused_batch_norm(x, *stats, is_training=False)
    return Built(feeds, [tf.reduce_mean(x, [1, 2])])


@case("super_resolution")
def super_resolution() -> Built:
    x, feeds = _image(1, 80, 60, 3)
    x = conv(conv(x, 32, 5), 32)
    return Built(feeds, [tf.nn.depth_to_space(conv(x, 12), 2)])
