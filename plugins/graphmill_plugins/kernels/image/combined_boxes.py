"""CombinedNonMaxSuppression: the best boxes of every class of a batch of images.

Semantics: tensorflow/core/kernels/image/non_max_suppression_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.runtime.kernel import kernel
from graphmill_plugins.kernels._support import INT32_MAX, check_size, shape_text
from graphmill_plugins.kernels.image.boxes import Limits, check_limits, iou_of, scalar, suppress

if TYPE_CHECKING:
    from graphmill.typing import ArrayNamespace, Value


def _check(boxes: Value, scores: Value) -> None:
    """Raise InvalidArgumentError unless the shapes fit together."""
    if boxes.ndim != 4 or boxes.shape[3] != 4:
        raise InvalidArgumentError(
            f"boxes must be 4-D with 4 columns, got shape {shape_text(boxes.shape)}"
        )
    if scores.ndim != 3 or scores.shape[:2] != boxes.shape[:2]:
        raise InvalidArgumentError(
            f"scores must be 3-D, [batch, boxes, classes], got shape {shape_text(scores.shape)} "
            f"for boxes of shape {shape_text(boxes.shape)}"
        )
    if boxes.shape[2] not in (1, scores.shape[2]):
        raise InvalidArgumentError(
            f"third dimension of boxes must be either 1 or num classes = {scores.shape[2]}, got "
            f"{boxes.shape[2]}"
        )


def _positive(name: str, value: Value) -> int:
    number = int(scalar(name, value))
    if number <= 0:
        raise InvalidArgumentError(f"{name} must be > 0, got {number}")
    return number


def _picked(boxes: Value, scores: Value, limits: Limits) -> tuple[Any, Any, Any]:
    """Return boxes, scores and classes of the picked boxes of one image, best first."""
    parts = []
    for number in range(scores.shape[1]):
        own = boxes[:, number if boxes.shape[1] > 1 else 0]
        chosen, kept = suppress(iou_of(own), scores[:, number], limits)
        parts.append((own[chosen], kept, np.full(len(chosen), number)))
    if not parts:
        return np.zeros((0, 4)), np.zeros(0), np.zeros(0)
    joined = [np.concatenate(part) for part in zip(*parts, strict=True)]
    order = np.argsort(-joined[1], kind="stable")
    return joined[0][order], joined[1][order], joined[2][order]


@kernel("CombinedNonMaxSuppression", host=True, dynamic_shape=True, expensive=True)
def combined_non_max_suppression(
    xp: ArrayNamespace,
    boxes: Value,
    scores: Value,
    max_output_size_per_class: Value,
    max_total_size: Value,
    iou_threshold: Value,
    score_threshold: Value,
    pad_per_class: bool,
    clip_boxes: bool,
) -> tuple[Value, Value, Value, Value]:
    """Return boxes, scores and classes of each image, padded with zeros, and their number.

    `boxes` is (batch, boxes, 1 or classes, 4), `scores` (batch, boxes, classes). Of equal scores
    of two classes the lower class comes first.
    """
    del xp
    per_class = _positive("max_size_per_class", max_output_size_per_class)
    total = _positive("max_total_size", max_total_size)
    limits = Limits(
        per_class,
        scalar("iou_threshold", iou_threshold),
        scalar("score_threshold", score_threshold),
    )
    check_limits(limits)
    _check(boxes, scores)
    batch = len(boxes)
    if pad_per_class:
        total = min(total, per_class * scores.shape[2], INT32_MAX)
    check_size((batch, total, 4))
    out_boxes = np.zeros((batch, total, 4), np.float32)
    out_scores = np.zeros((batch, total), np.float32)
    out_classes = np.zeros((batch, total), np.float32)
    valid = np.zeros(batch, np.int32)
    for image in range(batch):
        found, kept, classes = _picked(boxes[image], scores[image], limits)
        count = valid[image] = min(total, len(kept))
        out_boxes[image, :count] = np.clip(found, 0, 1)[:count] if clip_boxes else found[:count]
        out_scores[image, :count] = kept[:count]
        out_classes[image, :count] = classes[:count]
    return out_boxes, out_scores, out_classes, valid
