"""Suppress the boxes of all classes and images at once.

Each class of each image is a row. The best boxes of all rows are compared in one batch: NumPy calls
are then few, however many classes there are. A row whose best boxes overlap so much that they do
not suffice is computed alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from graphmill_plugins.kernels.image._overlaps import (
    Corners,
    as_integers,
    greedy,
    intersection_over_union,
)
from graphmill_plugins.kernels.image.boxes import iou_of, suppress

if TYPE_CHECKING:
    from graphmill.spi import Value
    from graphmill_plugins.kernels.image.boxes import Limits

_MIN_CANDIDATES: Final = 16
_MAX_CANDIDATES: Final = 512  # of a row; with more, each row is computed alone, to save memory
_PAIRS_AT_ONCE: Final = 1 << 15  # pairs whose overlaps fit in a processor's cache
_LAST: Final = np.int32(0x7FFFFFFF)  # sorts behind the keys of all scores


def num_candidates(counts: Value, limits: Limits) -> int:
    """Return the number of boxes of each row to compare, given the counts above the threshold."""
    return min(int(counts.max(initial=0)), max(_MIN_CANDIDATES, 2 * limits.most))


def suppress_rows(boxes: Value, scores: Value, counts: Value, limits: Limits) -> list[list[int]]:
    """Return the selected boxes of each row, best first.

    Args:
        boxes: (images, boxes, 1 or classes, 4).
        scores: (images * classes, boxes).
        counts: for each row the number of scores above the threshold.
        limits: the thresholds.
    """
    width = num_candidates(counts, limits)
    if width > _MAX_CANDIDATES:
        return [_alone(boxes, scores, row, limits) for row in range(len(scores))]
    order = _best_first(scores, limits.score)[:, :width]
    image, column = _positions(boxes, len(scores))
    rows_at_once = max(1, _PAIRS_AT_ONCE // max(1, width * width))
    selected: list[list[int]] = []
    for start in range(0, len(scores), rows_at_once):
        some = slice(start, start + rows_at_once)
        candidates = boxes[image[some, None], order[some], column[some, None]]
        corners = Corners.of(candidates)
        overlaps = as_integers(intersection_over_union(corners, corners), limits.overlap)
        for row, bits in zip(order[some].tolist(), overlaps, strict=True):
            count = int(counts[len(selected)])
            chosen = greedy(bits[:count], limits.most)
            if len(chosen) < limits.most and count > width:
                selected.append(_alone(boxes, scores, len(selected), limits))
            else:
                selected.append([row[position] for position in chosen])
    return selected


def _alone(boxes: Value, scores: Value, row: int, limits: Limits) -> list[int]:
    image, column = divmod(row, len(scores) // len(boxes))
    own = boxes[image, :, column if boxes.shape[2] > 1 else 0]
    return suppress(iou_of(own), scores[row], limits)[0]


def _positions(boxes: Value, rows: int) -> tuple[Value, Value]:
    """Return the image of each row, and the position of its boxes on the axis of classes."""
    classes = rows // len(boxes) if len(boxes) else 1
    image, column = np.divmod(np.arange(rows), max(1, classes))
    return image, column if boxes.shape[2] > 1 else np.zeros_like(column)


def _best_first(scores: Value, threshold: float) -> Value:
    """Return the indices of each row, best scores first; scores up to the threshold come last.

    As in `boxes`, a score and its index are packed into one integer key.
    """
    bits = (np.float32(0) - scores).view(np.int32)
    bits ^= (bits >> 31) & _LAST
    np.copyto(bits, _LAST, where=~(scores > threshold))
    keys = bits.astype(np.int64) << 32
    keys |= np.arange(scores.shape[1])
    keys.sort(axis=1)
    return keys & 0xFFFFFFFF
