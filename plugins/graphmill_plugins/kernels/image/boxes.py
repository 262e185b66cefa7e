"""Non-maximum suppression: select the best boxes with little overlap.

Semantics: tensorflow/core/kernels/image/non_max_suppression_op.cc.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from graphmill import errors
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import check_size
from graphmill_plugins.kernels.image._overlaps import (
    Corners,
    as_integers,
    greedy,
    intersection_over_union,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Value

    Similarity = Callable[[Any, Any], Any]


_MAX_BATCH: Final = 64  # the largest number of boxes that are compared in one batch
_MIN_BATCH: Final = 16  # the smallest batch, used if few boxes are to be selected
_DECAYS_AT_ONCE: Final = 16  # of how many likely boxes soft suppression computes the overlaps


class Limits(NamedTuple):
    """The thresholds for dropping boxes.

    Attributes:
        most: the maximum number of selected boxes.
        overlap: a box is dropped if its similarity to a better box exceeds this.
        score: boxes with scores up to this are dropped.
        sigma: if above 0, scores decay with the similarity instead (soft suppression).
    """

    most: int
    overlap: float = 0.5
    score: float = -math.inf
    sigma: float = 0.0


def check_limits(limits: Limits, *, is_iou: bool = True) -> None:
    """Raise InvalidArgumentError for invalid thresholds."""
    if limits.most < 0:
        raise errors.InvalidArgumentError(f"output size must be non-negative, got {limits.most}")
    if is_iou and not 0 <= limits.overlap <= 1:
        raise errors.InvalidArgumentError(f"iou_threshold must be in [0, 1], got {limits.overlap}")
    if not limits.sigma >= 0:
        raise errors.InvalidArgumentError(
            f"soft_nms_sigma must be non-negative, got {limits.sigma}"
        )


def scalar(name: str, value: Value) -> Any:
    """Return the value of a scalar input; raise InvalidArgumentError if it is not a scalar."""
    if value.ndim:
        raise errors.InvalidArgumentError(f"{name} must be 0-D, got shape {list(value.shape)}")
    return value.item()


def iou_of(boxes: Any) -> Similarity:
    """Return a function that computes the intersection over union of boxes, in float32.

    Both arguments of the function are indices of boxes; the result has a row for each of the first.
    """
    corners = Corners.of(boxes)

    def similarity(some: Any, others: Any) -> Any:
        first = corners.take(some)
        second = first if others is some else corners.take(others)
        return intersection_over_union(first, second)

    return similarity


def overlap_of(overlaps: Any) -> Similarity:
    """Return a function of indices of boxes that looks up the given overlaps."""
    return lambda some, others: overlaps[some[:, None], others]


def suppress(similarity: Similarity, scores: Any, limits: Limits) -> tuple[list[int], Any]:
    """Return the selected boxes, best first, and their (possibly decayed) scores."""
    if limits.sigma <= 0:
        selected = _hard_nms(similarity, scores, limits)
        return selected, scores[selected]
    return _soft_nms(similarity, scores, limits)


def _best_first(scores: Any, threshold: float) -> Any:
    """Return the indices of the scores above a limit, best first; ties keep their order.

    Each score and its index are packed into one integer key: NumPy sorts these several times as
    fast as it argsorts floats.
    """
    (indices,) = (scores > threshold).nonzero()
    if scores.dtype != np.float32:
        return indices[np.argsort(-scores[indices], kind="stable")]
    bits = (np.float32(0) - scores[indices]).view(np.int32)  # 0 - x never gives -0.0
    bits ^= (bits >> 31) & np.int32(0x7FFFFFFF)  # integers in the order of the floats
    keys = bits.astype(np.int64) << 32 | indices
    keys.sort()
    return keys & 0xFFFFFFFF


def _hard_nms(similarity: Similarity, scores: Any, limits: Limits) -> list[int]:
    """Repeatedly select the best box and drop all that overlap it, in batches of boxes."""
    order = _best_first(scores, limits.score)
    selected: list[int] = []
    missing, start = limits.most, 0
    batch_size = 2 * missing
    while missing > 0 and start < order.size:
        batch_size = min(_MAX_BATCH, max(_MIN_BATCH, batch_size))
        batch = order[start : start + batch_size]
        start += batch_size
        if selected:
            overlaps = similarity(batch, np.array(selected)) > limits.overlap
            batch = batch[~overlaps.any(axis=1)]
        chosen: list[int] = []
        if batch.size:
            bits = as_integers(similarity(batch, batch).T[None], limits.overlap)[0]
            chosen = greedy(bits, missing)
            selected += batch[chosen].tolist()
            missing -= len(chosen)
        # If a batch has none, the few that are missing are probably far behind.
        batch_size = 2 * missing if chosen else 2 * batch_size
    return selected


def _soft_nms(similarity: Similarity, scores: Any, limits: Limits) -> tuple[list[int], list[float]]:
    """Repeatedly select the best box and lower the scores of boxes that overlap it (soft-NMS).

    Scores only decrease. So boxes are processed in batches, best first: the remaining boxes are
    not needed until one of them may be the best.
    """
    decay_rate = np.float32(-0.5 / limits.sigma)
    order = _best_first(scores, limits.score)
    selected: list[int] = []
    selected_scores: list[float] = []
    boxes, left, taken = order[:0], np.empty(0, np.float32), 0
    decays: dict[int, Any] = {}  # by the position of a box in `boxes`
    while len(selected) < limits.most:
        best = int(np.argmax(left)) if left.size else -1
        if taken < order.size and (best < 0 or left[best] <= scores[order[taken]]):
            more = order[taken : taken + _MAX_BATCH]
            overlaps = similarity(more, np.array(selected, np.intp))
            decayed = scores[more] * np.exp(decay_rate * np.square(overlaps)).prod(axis=1)
            is_alive = np.isfinite(left)
            boxes = np.concatenate([boxes[is_alive], more])
            left = np.concatenate([left[is_alive], decayed.astype(np.float32)])
            taken += more.size
            decays.clear()
            continue
        if best < 0 or not left[best] > limits.score:
            break
        selected.append(int(boxes[best]))
        selected_scores.append(float(left[best]))
        if best not in decays:
            likely = _largest(left, _DECAYS_AT_ONCE)
            overlaps = similarity(boxes[likely], boxes)
            decays.update(
                zip(likely.tolist(), np.exp(decay_rate * np.square(overlaps)), strict=True)
            )
        left *= decays[best]
        left[best] = -np.inf
    return selected, selected_scores


def _largest(values: Any, count: int) -> Any:
    """Return the positions of the `count` largest values, in any order; of equals, the first."""
    return np.argsort(-values, kind="stable")[:count]


def _check_boxes(boxes: Value, scores: Value) -> None:
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise errors.InvalidArgumentError(
            f"boxes must be 2-D with 4 columns, got shape {list(boxes.shape)}"
        )
    if scores.shape != boxes.shape[:1]:
        raise errors.InvalidArgumentError(
            f"scores has incompatible shape: {list(scores.shape)} for {boxes.shape[0]} boxes"
        )


def _indices(boxes: Value, scores: Value, limits: Limits) -> tuple[Value, Value]:
    _check_boxes(boxes, scores)
    check_limits(limits)
    selected, selected_scores = suppress(iou_of(boxes), scores.astype(np.float32), limits)
    return np.array(selected, np.int32), np.array(selected_scores, np.float32).astype(scores.dtype)


@kernel("NonMaxSuppression", host=True, dynamic_shape=True)
def non_max_suppression(
    boxes: Value, scores: Value, max_output_size: Value, iou_threshold: float
) -> Value:
    """Return the indices of the selected boxes."""
    count = scalar("max_output_size", max_output_size)
    return _indices(boxes, scores, Limits(count, iou_threshold))[0]


@kernel("NonMaxSuppressionV2", host=True, dynamic_shape=True)
def non_max_suppression_v2(
    boxes: Value, scores: Value, max_output_size: Value, iou_threshold: Value
) -> Value:
    """Return the indices of the selected boxes; the overlap threshold is an input."""
    limits = Limits(
        scalar("max_output_size", max_output_size), scalar("iou_threshold", iou_threshold)
    )
    return _indices(boxes, scores, limits)[0]


@kernel("NonMaxSuppressionV3", host=True, dynamic_shape=True)
def non_max_suppression_v3(
    boxes: Value,
    scores: Value,
    max_output_size: Value,
    iou_threshold: Value,
    score_threshold: Value,
) -> Value:
    """Return the indices of the selected boxes; low scores are dropped."""
    limits = Limits(
        scalar("max_output_size", max_output_size),
        scalar("iou_threshold", iou_threshold),
        scalar("score_threshold", score_threshold),
    )
    return _indices(boxes, scores, limits)[0]


def _padded(selected: Value, count: int, pads: bool) -> Value:
    if not pads:
        return selected
    check_size((count,), itemsize=selected.dtype.itemsize)
    out = np.zeros(count, selected.dtype)
    out[: len(selected)] = selected
    return out


@kernel("NonMaxSuppressionV4", host=True, dynamic_shape=True)
def non_max_suppression_v4(
    boxes: Value,
    scores: Value,
    max_output_size: Value,
    iou_threshold: Value,
    score_threshold: Value,
    pad_to_max_output_size: bool,
) -> tuple[Value, Value]:
    """Return the indices of the selected boxes, padded with zeros on request, and their count."""
    limits = Limits(
        scalar("max_output_size", max_output_size),
        scalar("iou_threshold", iou_threshold),
        scalar("score_threshold", score_threshold),
    )
    selected, _ = _indices(boxes, scores, limits)
    return _padded(selected, limits.most, pad_to_max_output_size), np.int32(len(selected))


@kernel("NonMaxSuppressionV5", host=True, dynamic_shape=True)
def non_max_suppression_v5(
    boxes: Value,
    scores: Value,
    max_output_size: Value,
    iou_threshold: Value,
    score_threshold: Value,
    soft_nms_sigma: Value,
    pad_to_max_output_size: bool,
) -> tuple[Value, Value, Value]:
    """Return indices and scores of the selected boxes, and their count."""
    limits = Limits(
        scalar("max_output_size", max_output_size),
        scalar("iou_threshold", iou_threshold),
        scalar("score_threshold", score_threshold),
        scalar("soft_nms_sigma", soft_nms_sigma),
    )
    selected, selected_scores = _indices(boxes, scores, limits)
    pad = pad_to_max_output_size
    return (
        _padded(selected, limits.most, pad),
        _padded(selected_scores, limits.most, pad),
        np.int32(len(selected)),
    )


@kernel("NonMaxSuppressionWithOverlaps", host=True, dynamic_shape=True)
def non_max_suppression_with_overlaps(
    overlaps: Value,
    scores: Value,
    max_output_size: Value,
    overlap_threshold: Value,
    score_threshold: Value,
) -> Value:
    """Return the indices of the selected boxes, given all pairwise overlaps."""
    if overlaps.ndim != 2 or overlaps.shape != (scores.size, scores.size) or scores.ndim != 1:
        raise errors.InvalidArgumentError(
            f"overlaps must be square, one row for each score, got {list(overlaps.shape)} and "
            f"{list(scores.shape)}"
        )
    limits = Limits(
        scalar("max_output_size", max_output_size),
        scalar("overlap_threshold", overlap_threshold),
        scalar("score_threshold", score_threshold),
    )
    check_limits(limits, is_iou=False)
    return np.array(suppress(overlap_of(overlaps), scores, limits)[0], np.int32)
