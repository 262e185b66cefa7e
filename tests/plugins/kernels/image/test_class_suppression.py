"""Boxes of all classes selected at once equal those selected class by class."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill_plugins.kernels.image import _class_suppression, combined_boxes
from graphmill_plugins.kernels.image._class_suppression import num_candidates, suppress_rows
from graphmill_plugins.kernels.image.boxes import Limits, iou_of, suppress

pytestmark = pytest.mark.divided

IMAGES, COUNT, CLASSES = 2, 90, 3


@pytest.fixture(autouse=True)
def errors_ignored():
    with np.errstate(all="ignore"):  # as steps have it
        yield


def boxes(columns, size=1.0):
    random = np.random.default_rng(columns)
    corners = random.random((IMAGES, COUNT, columns, 2))
    other = corners + random.uniform(-size, size, corners.shape)
    made = np.concatenate([corners, other], axis=3).astype(np.float32)
    made[:, : COUNT // 8, :, 2:] = made[:, : COUNT // 8, :, :2]  # without an area
    return made


def scores():
    made = np.random.default_rng(5).random((IMAGES * CLASSES, COUNT)).astype(np.float32)
    made[:, :30] = np.round(made[:, :30], 1)  # equal ones
    made[0] = 0  # a class without boxes
    made[1, 4] = np.nan
    return made


def one_by_one(own, rows, limits):
    return [
        suppress(iou_of(own[row // CLASSES, :, row % own.shape[2]]), rows[row], limits)[0]
        for row in range(len(rows))
    ]


@pytest.mark.parametrize("columns", [1, CLASSES])
@pytest.mark.parametrize("limits", [Limits(4, 0.3, 0.2), Limits(9, 0.0, 0.0), Limits(500, 1.0)])
@pytest.mark.parametrize("most_candidates", [512, 20])
def test_rows_equal_classes_one_by_one(monkeypatch, columns, limits, most_candidates):
    monkeypatch.setattr(_class_suppression, "_MAX_CANDIDATES", most_candidates)
    own, rows = boxes(columns), scores()
    counts = np.count_nonzero(rows > limits.score, axis=1)
    assert suppress_rows(own, rows, counts, limits) == one_by_one(own, rows, limits)


def test_rows_with_more_overlaps_than_candidates_are_complete():
    own, rows, limits = boxes(1, size=0.0), scores(), Limits(2, 0.1, 0.0)
    own[..., :2] = 0
    own[..., 2:] = 1  # all boxes are equal, but for one with a low score
    worst = int(np.argmin(np.where(rows[1] > 0, rows[1], 2)))
    own[0, worst] = (2, 2, 3, 3)
    counts = np.count_nonzero(rows > limits.score, axis=1)
    assert counts[1] > num_candidates(counts, limits)
    found = suppress_rows(own, rows, counts, limits)
    assert worst in found[1]
    assert found == one_by_one(own, rows, limits)


@pytest.mark.parametrize("shared_cost", [0, 1 << 20])
def test_combined_suppression_orders_boxes_of_all_classes(monkeypatch, shared_cost):
    monkeypatch.setattr(combined_boxes, "_SHARED_COST", shared_cost)
    own, rows = boxes(1), scores()
    limits = Limits(5, 0.3, 0.2)
    by_class = np.swapaxes(rows.reshape(IMAGES, CLASSES, COUNT), 1, 2)
    out_boxes, out_scores, out_classes, valid = combined_boxes.combined_non_max_suppression(
        own,
        by_class,
        *map(np.asarray, (limits.most, 8, limits.overlap, limits.score)),
        False,
        False,
    )
    selected = one_by_one(own, rows, limits)
    for image in range(IMAGES):
        expected = sorted(
            (-rows[image * CLASSES + number, box], number, rank, box)
            for number in range(CLASSES)
            for rank, box in enumerate(selected[image * CLASSES + number])
        )[:8]
        assert valid[image] == len(expected)
        assert out_scores[image, : valid[image]].tolist() == [-score for score, *_ in expected]
        assert out_classes[image, : valid[image]].tolist() == [number for _, number, *_ in expected]
        kept = own[image, [box for *_, box in expected], 0]
        np.testing.assert_array_equal(out_boxes[image, : valid[image]], kept)
        assert not out_boxes[image, valid[image] :].any()
