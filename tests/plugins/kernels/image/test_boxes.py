"""Boxes selected in batches equal those selected one by one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill import errors
from graphmill_plugins.kernels.image.boxes import Limits, iou_of, suppress
from graphmill_plugins.kernels.image.combined_boxes import _SharedBoxes

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.divided


def boxes(count, seed=0):
    random = np.random.default_rng(seed)
    made = random.random((count, 4)).astype(np.float32)
    made[: count // 8, 2:] = made[: count // 8, :2]  # without an area
    return made


@pytest.mark.parametrize("most", [1, 5, 1000])
@pytest.mark.parametrize("overlap", [0.0, 0.3, 1.0])
def test_boxes_shared_by_classes_are_selected_per_class(most, overlap):
    own, scores = boxes(70), np.random.default_rng(1).random((70, 6)).astype(np.float32)
    scores[:20] = np.round(scores[:20], 1)  # equal ones
    limits = Limits(most, overlap, 0.2)
    with np.errstate(all="ignore"):  # as steps have it
        found = _SharedBoxes(own, scores, limits).selected()
    assert found == [suppress(iou_of(own), column, limits)[0] for column in scores.T]


@pytest.mark.parametrize("score", [-math.inf, 0.2])
def test_soft_suppression_lowers_scores_of_overlapping_boxes(score):
    own, scores = boxes(300), np.random.default_rng(2).random(300).astype(np.float32)
    selected, new_scores = suppress(iou_of(own), scores, Limits(100, 0.5, score, sigma=0.3))
    left, similarity = dict(enumerate(scores.tolist())), iou_of(own)
    for box, faded in zip(selected, new_scores, strict=True):
        assert faded == pytest.approx(left[box], rel=1e-4)
        assert left[box] >= max(left.values()) * (1 - 1e-4)
        del left[box]
        (overlaps,) = similarity(np.array([box]), np.array(list(left))).tolist()
        for other, value in zip(left, overlaps, strict=True):
            left[other] *= math.exp(-0.5 / 0.3 * value * value)
    assert len(selected) == 100 or max(left.values()) <= score * (1 + 1e-4)


def test_soft_suppression_compares_many_boxes_in_each_call() -> None:
    own, scores = boxes(60), np.random.default_rng(2).random(60).astype(np.float32)
    similarity, calls = iou_of(own), []

    def noted(some: Any, others: Any) -> Any:
        calls.append(len(some))
        return similarity(some, others)

    selected, _ = suppress(noted, scores, Limits(60, 0.5, sigma=0.3))

    assert len(selected) == 60
    assert len(calls) < 15


def test_an_overlap_threshold_of_another_rank_is_named(call: Callable[..., Any]) -> None:
    boxes, scores = np.zeros((1, 4), np.float32), np.zeros(1, np.float32)
    with pytest.raises(errors.InvalidArgumentError, match="iou_threshold must be 0-D"):
        call("NonMaxSuppressionV2", boxes, scores, np.int32(1), np.zeros(1, np.float32))
