"""Suppress the boxes of all classes and images at once.

Each class of each image is a row. The best boxes of all rows are compared in one batch: NumPy calls
are then few, however many classes there are. A row whose best boxes overlap so much that they do
not suffice is computed alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill_plugins.kernels.image.boxes import iou_of, suppress

if TYPE_CHECKING:
    from graphmill.spi import Value
    from graphmill_plugins.kernels.image.boxes import Limits

_MIN_CANDIDATES: Final = 16
_MAX_CANDIDATES: Final = 512  # of a row; with more, each row is computed alone, to save memory
_PAIRS_AT_ONCE: Final = 1 << 15  # pairs whose overlaps fit in a processor's cache
_LAST: Final = np.int32(0x7FFFFFFF)  # sorts behind the keys of all scores


def num_candidates(counts: Value, limits: Limits) -> int:
    """Return how many boxes of each row are compared, given the numbers above the threshold."""
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
        overlaps = intersection_over_union(candidates) > limits.overlap
        bits = np.packbits(overlaps, axis=2, bitorder="little")
        for row, text in zip(order[some].tolist(), bits, strict=True):
            count = int(counts[len(selected)])
            chosen = _greedy(text.tobytes(), text.shape[1], min(count, width), limits.most)
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
    bits[~(scores > threshold)] = _LAST
    keys = bits.astype(np.int64) << 32
    keys |= np.arange(scores.shape[1])
    keys.sort(axis=1)
    return keys & 0xFFFFFFFF


def intersection_over_union(boxes: Value) -> Any:
    """Return the overlap of each box (rows, boxes, 4) with each one of its row, in float32.

    Boxes of zero area overlap nothing.
    """
    low, high = (
        np.minimum(boxes[..., :2], boxes[..., 2:]),
        np.maximum(boxes[..., :2], boxes[..., 2:]),
    )
    size = high - low
    area = size[..., 0] * size[..., 1]
    is_empty = ~(area > 0)
    if is_empty.any():
        low[is_empty], high[is_empty], area[is_empty] = np.inf, -np.inf, 0
    common = _common_lengths(low[..., 0], high[..., 0])
    common *= _common_lengths(low[..., 1], high[..., 1])
    union = area[:, :, None] + area[:, None]
    union -= common
    common /= union
    return common


def _common_lengths(first: Value, last: Value) -> Any:
    length = np.minimum(last[:, :, None], last[:, None])
    length -= np.maximum(first[:, :, None], first[:, None])
    return np.maximum(length, 0, out=length)


def _greedy(overlaps: bytes, size: int, count: int, most: int) -> list[int]:
    """Return the selected positions of one row.

    Args:
        overlaps: for each position `size` bytes, with a bit for each position that overlaps it.
        size: see `overlaps`.
        count: the number of positions.
        most: the maximum number of selected positions.
    """
    selected: list[int] = []
    dropped = 0
    for position in range(count):
        if dropped >> position & 1:
            continue
        if len(selected) >= most:
            break
        selected.append(position)
        start = position * size
        dropped |= int.from_bytes(overlaps[start : start + size], "little")
    return selected
