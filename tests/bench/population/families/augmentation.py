"""Images: resizing, colours, geometry, decoding."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from population.layers import images, placeholder
from population.registry import Built, case, each


@case(
    "resize_{method}_b{batch}",
    each(method=["bilinear", "nearest", "bicubic", "area"], batch=[1, 8]),
    atol=2e-3,
)
def resize(method: str, batch: int) -> Built:
    value = images(batch, 121, 93, 3)
    return Built({"x": value}, [tf.image.resize(placeholder("x", value), [64, 64], method)])


@case("colours_b{batch}", each(batch=[1, 16]), atol=2e-3)
def colours(batch: int) -> Built:
    value = images(batch, 48, 48, 3)
    x = tf.image.adjust_contrast(tf.image.adjust_brightness(placeholder("x", value), 0.1), 1.3)
    x = tf.image.adjust_saturation(tf.image.adjust_hue(x, 0.05), 0.8)
    return Built({"x": value}, [tf.clip_by_value(x, 0.0, 1.0)])


@case("flips_and_crops_b{batch}", each(batch=[1, 32]))
def flips(batch: int) -> Built:
    value = images(batch, 40, 40, 3)
    x = tf.image.flip_left_right(placeholder("x", value))
    x = tf.image.rot90(tf.pad(x, [[0, 0], [4, 4], [4, 4], [0, 0]], "REFLECT"))
    return Built({"x": value}, [tf.image.per_image_standardization(x[:, 3:43, 5:45])])


@case("projective_transform_b{batch}", each(batch=[1, 8]), atol=2e-3)
def transform(batch: int) -> Built:
    value = images(batch, 60, 60, 3)
    moves = np.tile(np.array([0.9, 0.1, 2, -0.1, 0.9, 3, 0, 0], np.float32), (batch, 1))
    x = tf.raw_ops.ImageProjectiveTransformV2(
        images=placeholder("x", value),
        transforms=moves,
        output_shape=[60, 60],
        interpolation="BILINEAR",
    )
    return Built({"x": value}, [x])


# TensorFlow computes the cosine transform of a JPEG less accurately than Pillow does.
@case("decode_{kind}", each(kind=["png", "jpeg"]), rtol=0.0, atol=8.0)
def decode(kind: str) -> Built:
    pixels = (images(1, 96, 128, 3)[0] * 255).astype(np.uint8)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        encode = tf.io.encode_png(pixels) if kind == "png" else tf.io.encode_jpeg(pixels)
        value = np.array(session.run(encode), object)
    decoded = getattr(tf.io, f"decode_{kind}")(placeholder("data", value), channels=3)
    return Built({"data": value}, [tf.cast(decoded, tf.float32)])


@case("patches_b{batch}", each(batch=[1, 8]))
def patches(batch: int) -> Built:
    value = images(batch, 64, 64, 3)
    x = tf.image.extract_patches(
        placeholder("x", value), [1, 8, 8, 1], [1, 8, 8, 1], [1] * 4, "VALID"
    )
    return Built({"x": value}, [x, tf.image.sobel_edges(x[..., :3])])
