"""Detection: boxes, non-maximum suppression, crops, selection."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from population.layers import images, numbers, placeholder, random
from population.registry import Built, case, each


def _boxes(count: int) -> Any:
    corner = random.uniform(0, 0.8, (count, 2))
    return np.concatenate([corner, corner + random.uniform(0.05, 0.2, (count, 2))], 1).astype("f4")


@case("nms_{count}", each(count=[100, 2000]))
def nms(count: int) -> Built:
    boxes, scores = _boxes(count), random.uniform(0, 1, count).astype(np.float32)
    inputs = placeholder("boxes", boxes), placeholder("scores", scores)
    kept = tf.image.non_max_suppression(*inputs, 50, 0.4, 0.1)
    return Built({"boxes": boxes, "scores": scores}, [kept, tf.gather(inputs[0], kept)])


@case("combined_nms_b{batch}", each(batch=[1, 4]))
def combined(batch: int) -> Built:
    boxes = np.stack([_boxes(300) for _ in range(batch)])[:, :, None]
    scores = random.uniform(0, 1, (batch, 300, 5)).astype(np.float32)
    inputs = placeholder("boxes", boxes), placeholder("scores", scores)
    found = tf.image.combined_non_max_suppression(*inputs, 20, 40, 0.5, 0.3)
    return Built({"boxes": boxes, "scores": scores}, list(found))


@case("decode_boxes_{count}", each(count=[200, 5000]))
def decode(count: int) -> Built:
    anchors, deltas, logits = _boxes(count), numbers(count, 4) * 0.1, numbers(count, 9)
    fed = placeholder("deltas", deltas), placeholder("logits", logits)
    size = anchors[:, 2:] - anchors[:, :2]
    middle = anchors[:, :2] + 0.5 * size + fed[0][:, :2] * size
    half = 0.5 * tf.exp(fed[0][:, 2:]) * size
    boxes = tf.clip_by_value(tf.concat([middle - half, middle + half], 1), 0.0, 1.0)
    scores = tf.reduce_max(tf.sigmoid(fed[1]), 1)
    best, index = tf.math.top_k(scores, 100)
    return Built({"deltas": deltas, "logits": logits}, [best, tf.gather(boxes, index)])


@case("postprocess_b{batch}", each(batch=[1, 4]))
def postprocess(batch: int) -> Built:
    boxes = np.stack([_boxes(400) for _ in range(batch)])
    scores = random.uniform(0, 1, (batch, 400)).astype(np.float32)
    fed = placeholder("boxes", boxes), placeholder("scores", scores)
    results = []
    for i in range(batch):
        keep = tf.where(fed[1][i] > 0.5)[:, 0]
        some, values = tf.gather(fed[0][i], keep), tf.gather(fed[1][i], keep)
        chosen = tf.image.non_max_suppression(some, values, 30, 0.5)
        results += [tf.gather(some, chosen), tf.gather(values, chosen)]
    return Built({"boxes": boxes, "scores": scores}, results)


@case("crop_and_resize_{count}", each(count=[4, 64]))
def crops(count: int) -> Built:
    value, boxes = images(2, 80, 80, 8), _boxes(count)
    fed = placeholder("x", value), placeholder("boxes", boxes)
    ids = tf.constant(random.integers(0, 2, count).astype(np.int32))
    found = tf.image.crop_and_resize(fed[0], fed[1], ids, [14, 14])
    return Built({"x": value, "boxes": boxes}, [tf.nn.max_pool2d(found, 2, 2, "SAME")])


@case("intersection_over_union_{count}", each(count=[50, 600]))
def iou(count: int) -> Built:
    value = _boxes(count)
    boxes = placeholder("boxes", value)
    low = tf.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = tf.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    common = tf.reduce_prod(tf.maximum(high - low, 0.0), 2)
    area = tf.reduce_prod(boxes[:, 2:] - boxes[:, :2], 1)
    return Built({"boxes": value}, [common / (area[:, None] + area[None] - common)])


@case("boolean_mask_{count}", each(count=[100, 20000]))
def mask(count: int) -> Built:
    value = numbers(count, 4)
    x = placeholder("x", value)
    rows = tf.boolean_mask(x, x[:, 0] > 0.3)
    return Built({"x": value}, [tf.reduce_mean(rows, 0), tf.shape(rows)])
