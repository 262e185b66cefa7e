"""Bad input for which TensorFlow aborts raises a typed error."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill.errors import InvalidArgumentError

pytestmark = pytest.mark.divided

WINDOWS = {"ksize": (1, 2, 2, 1), "strides": (1, 1, 1, 1), "padding": "VALID"}


@pytest.mark.parametrize("number", [9, -1])
def test_a_number_beyond_the_image_is_refused(call, number):
    image, gradient = np.zeros((1, 3, 3, 1), np.float32), np.zeros((1, 2, 2, 1), np.float32)
    numbers = np.full((1, 2, 2, 1), number)
    with pytest.raises(InvalidArgumentError, match="outside"):
        call("MaxPoolGradWithArgmax", image, gradient, numbers, **WINDOWS)


def test_scores_without_classes_are_refused(call):
    boxes, scores = np.zeros((2, 3, 1, 4), np.float32), np.zeros((2, 3), np.float32)
    with pytest.raises(InvalidArgumentError, match="3-D"):
        call(
            "CombinedNonMaxSuppression",
            boxes,
            scores,
            np.int32(4),
            np.int32(9),
            np.float32(0.5),
            np.float32(0),
        )


def test_more_classes_than_can_be_counted_are_refused(call):
    with pytest.raises(InvalidArgumentError, match="range_max"):
        call(
            "LearnedUnigramCandidateSampler",
            np.zeros((1, 1), np.int64),
            num_true=1,
            num_sampled=1,
            unique=False,
            range_max=2**31,
        )
