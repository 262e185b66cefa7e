"""CombinedNonMaxSuppression: select the best boxes of every class for a batch of images.

Semantics: tensorflow/core/kernels/image/non_max_suppression_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill.spi.kernels import cancellable
from graphmill_plugins.kernels._support import INT32_MAX, check_size, shape_text
from graphmill_plugins.kernels.image._class_suppression import num_candidates, suppress_rows
from graphmill_plugins.kernels.image._overlaps import (
    Corners,
    as_integers,
    intersection_over_union,
)
from graphmill_plugins.kernels.image.boxes import Limits, check_limits, scalar

if TYPE_CHECKING:
    from graphmill.spi import Value

_SHARED_COST: Final = 4  # comparing a pair for one class takes as long as this many for all
_MAX_SHARED_BOXES: Final = 1 << 13  # with more boxes, not all pairs are compared
_BATCH_SIZE: Final = 16


def _check(boxes: Value, scores: Value) -> None:
    """Raise InvalidArgumentError unless the shapes match."""
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


def _selected(boxes: Value, scores: Value, limits: Limits) -> list[list[int]]:
    """Return the selected boxes of each class of each image, best first."""
    images, count, classes = scores.shape
    rows = np.ascontiguousarray(np.swapaxes(scores, 1, 2)).reshape(images * classes, count)
    above = np.count_nonzero(rows > limits.score, axis=1)
    candidates = num_candidates(above, limits)
    are_shared = boxes.shape[2] == 1 and count <= _MAX_SHARED_BOXES
    if are_shared and _SHARED_COST * candidates**2 * classes > count**2 > 0:
        own = cancellable(range(images), 1)
        shared = (_SharedBoxes(boxes[image, :, 0], scores[image], limits) for image in own)
        return [chosen for image in shared for chosen in image.selected()]
    return suppress_rows(boxes, rows, above, limits)


class _SharedBoxes:
    """Boxes shared by all classes; their overlaps are computed once.

    The overlaps of a box are an integer with a bit for each other box. Boxes are ordered by their
    best score in any class: boxes that are likely to be selected are then neighbours, and their
    overlaps are computed in one batch.
    """

    def __init__(self, boxes: Value, scores: Value, limits: Limits) -> None:
        self._limits = limits
        best = scores.max(axis=1)
        used = np.flatnonzero(best > limits.score)
        self._used = used[np.argsort(-best[used], kind="stable")]
        self._rank = np.zeros(len(boxes), np.intp)
        self._rank[self._used] = np.arange(len(self._used))
        self._scores = scores
        self._corners = Corners.of(boxes[self._used])
        self._overlapping: dict[int, int] = {}

    def selected(self) -> list[list[int]]:
        """Return the selected boxes of each class, best first."""
        by_class = np.ascontiguousarray(self._scores.T)
        return [self._of_class(scores) for scores in cancellable(by_class, 16)]

    def _of_class(self, scores: Value) -> list[int]:
        boxes = np.flatnonzero(scores > self._limits.score)
        boxes = boxes[np.argsort(-scores[boxes], kind="stable")]
        ranks = self._rank[boxes].tolist()
        selected: list[int] = []
        dropped, limit = 0, self._limits.most
        for position, rank in enumerate(ranks):
            if dropped >> rank & 1:
                continue
            selected.append(position)
            if len(selected) >= limit:
                break
            dropped |= self._overlaps(rank)
        return boxes[selected].tolist()  # type: ignore[no-any-return]

    def _overlaps(self, rank: int) -> int:
        """Return an integer with a bit for each box that overlaps the box of this rank."""
        if rank not in self._overlapping:
            start = rank // _BATCH_SIZE * _BATCH_SIZE
            some = np.arange(start, min(start + _BATCH_SIZE, len(self._used)))
            overlaps = intersection_over_union(self._corners.take(some), self._corners)
            bits = as_integers(overlaps[None], self._limits.overlap)[0]
            self._overlapping.update(enumerate(bits, start))
        return self._overlapping[rank]


@kernel("CombinedNonMaxSuppression", host=True, dynamic_shape=True, expensive=True)
def combined_non_max_suppression(
    boxes: Value,
    scores: Value,
    max_output_size_per_class: Value,
    max_total_size: Value,
    iou_threshold: Value,
    score_threshold: Value,
    pad_per_class: bool,
    clip_boxes: bool,
) -> tuple[Value, Value, Value, Value]:
    """Return boxes, scores and classes of each image, padded with zeros, and counts.

    `boxes` is (batch, boxes, 1 or classes, 4), `scores` is (batch, boxes, classes). If scores are
    equal, the lower class comes first.
    """
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
    classes = scores.shape[2]
    chosen = _selected(boxes, scores, limits)
    rows = np.repeat(np.arange(batch * classes), [len(each) for each in chosen])
    box = np.array([index for each in chosen for index in each], np.intp)
    image, class_ = np.divmod(rows, max(1, classes))
    score = scores[image, box, class_]
    order = np.lexsort((-score, image))
    begins = np.searchsorted(image, np.arange(batch + 1))
    rank = np.arange(len(order)) - begins[image]
    kept = order[rank < total]
    image, class_, box, rank = image[kept], class_[kept], box[kept], rank[rank < total]
    found = boxes[image, box, class_ if boxes.shape[2] > 1 else 0]
    out_boxes[image, rank] = np.clip(found, 0, 1) if clip_boxes else found
    out_scores[image, rank] = score[kept]
    out_classes[image, rank] = class_
    valid[:] = np.minimum(np.diff(begins), total)
    return out_boxes, out_scores, out_classes, valid
