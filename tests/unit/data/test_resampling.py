"""`Dataset.rejection_resample`; the numbers of equal seeds are those of TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphmill import errors
from graphmill.data import Dataset

CLASSES = np.array([0, 0, 1, 0, 2, 0, 0, 1, 0, 0] * 4, np.int32)
SOURCE = [0.7, 0.2, 0.1]


def rows() -> Dataset:
    return Dataset.from_tensor_slices((CLASSES, np.arange(len(CLASSES))))


def resampled(target: Any, initial: Any = None) -> list[int]:
    """Return the numbers of the rows."""
    dataset = rows().rejection_resample(lambda label, _: label, target, initial, seed=7)
    elements = list(dataset)
    assert all(label == row[0] == CLASSES[row[1]] for label, row in elements)
    return [int(row[1]) for _, row in elements]


def test_known_initial_distribution_is_used() -> None:
    assert resampled([0.2, 0.3, 0.5], SOURCE) == [4, 0, 14, 1, 24, 34]


def test_missing_initial_distribution_is_estimated() -> None:
    assert resampled([0.2, 0.3, 0.5]) == [2, 0, 4, 1, 14, 24, 34]


def test_a_class_of_probability_zero_is_rejected() -> None:
    numbers = resampled([0.7, 0.3, 0.0], SOURCE)
    assert numbers == [
        0,
        1,
        2,
        5,
        6,
        7,
        8,
        10,
        11,
        12,
        13,
        15,
        16,
        17,
        18,
        20,
        21,
        22,
        23,
        26,
        27,
        29,
        31,
        32,
        33,
        37,
        38,
        39,
    ]
    assert 2 not in CLASSES[numbers]


def test_equal_distributions_keep_all() -> None:
    assert resampled(SOURCE, SOURCE) == list(range(len(CLASSES)))


def test_element_that_is_no_tuple() -> None:
    dataset = Dataset.from_tensor_slices(CLASSES).rejection_resample(
        lambda label: label, SOURCE, SOURCE
    )
    assert [int(value) for _, value in dataset] == CLASSES.tolist()


@pytest.mark.parametrize(
    ("target", "initial", "message"),
    [
        (0.5, None, "target_dist must be a vector"),
        ([], None, "target_dist must be a vector"),
        (["a"], None, "target_dist must be a vector"),
        ([0.5, -0.5], None, "no negative number and no NaN"),
        ([0.5, 0.5], [0.5, np.nan], "initial_dist must have no negative number"),
        ([0.5, 0.5], [1.0], "initial_dist has 1 classes, target_dist has 2"),
    ],
)
def test_invalid_distributions_are_refused(target: Any, initial: Any, message: str) -> None:
    with pytest.raises(errors.InvalidValueError, match=message):
        rows().rejection_resample(lambda label, _: label, target, initial)
