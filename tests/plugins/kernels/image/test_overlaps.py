"""Overlaps of boxes, and their bits."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill_plugins.kernels.image._overlaps import (
    Corners,
    as_integers,
    greedy,
    intersection_over_union,
)

BOXES = np.array([[0, 0, 1, 1], [1, 1, 0, 0.5], [0, 0, 0, 1], [3, 3, 2, 2], [np.nan, 0, 1, 1]])


def test_overlaps_are_intersections_over_unions():
    first, second = Corners.of(BOXES[:2]), Corners.of(BOXES)
    expected = np.array([[1, 0.5, 0, 0, 0], [0.5, 1, 0, 0, 0]], np.float32)
    np.testing.assert_array_equal(intersection_over_union(first, second), expected)


def test_boxes_without_area_do_not_overlap_themselves():
    corners = Corners.of(BOXES[[2, 4]])
    np.testing.assert_array_equal(intersection_over_union(corners, corners), np.zeros((2, 2)))


def test_rows_are_compared_separately():
    corners = Corners.of(np.stack([BOXES[:2], BOXES[2:4]]))
    found = intersection_over_union(corners, corners)
    np.testing.assert_array_equal(found, np.array([[[1, 0.5], [0.5, 1]], [[0, 0], [0, 1]]], "f4"))


@pytest.mark.parametrize("others", [1, 63, 64, 65, 200])
def test_integers_have_a_bit_for_each_larger_overlap(others):
    overlaps = np.random.default_rng(others).random((2, 3, others)).astype(np.float32)
    expected = [
        [sum(1 << bit for bit in range(others) if box[bit] > 0.5) for box in row]
        for row in overlaps
    ]
    assert as_integers(overlaps, 0.5) == expected


@pytest.mark.parametrize(("most", "expected"), [(9, [0, 2, 3]), (2, [0, 2]), (0, [])])
def test_positions_that_overlap_a_better_one_are_dropped(most, expected):
    assert greedy([0b0011, 0b0100, 0b0100, 0b1000], most) == expected
