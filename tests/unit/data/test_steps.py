"""`Dataset.unique`, `rebatch` and `ignore_errors` without TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphmill import errors
from graphmill.data import Dataset, TensorSpec


def lists(dataset: Dataset) -> list[Any]:
    return [np.asarray(element).tolist() for element in dataset]


def test_unique_keeps_the_first_of_equal_elements() -> None:
    assert lists(Dataset.from_tensor_slices(["b", "a", "b", "c", "a"]).unique()) == [
        b"b",
        b"a",
        b"c",
    ]
    assert lists(Dataset.from_tensor_slices([[1, 2], [1, 2], [2, 1]]).unique()) == [[1, 2], [2, 1]]


@pytest.mark.parametrize("tensors", [[1.5, 1.5], ([1, 1], [2, 2])])
def test_unique_refuses_elements_that_cannot_be_compared(tensors: Any) -> None:
    with pytest.raises(errors.InvalidValueError, match="must be one tensor, int32, int64 or"):
        Dataset.from_tensor_slices(tensors).unique()


def test_rebatch_divides_batches() -> None:
    batches = Dataset.range(7).batch(4)
    assert lists(batches.rebatch(3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert lists(batches.rebatch(3, drop_remainder=True)) == [[0, 1, 2], [3, 4, 5]]
    assert lists(batches.rebatch([1, 3])) == [[0], [1, 2, 3], [4], [5, 6]]


@pytest.mark.parametrize(
    ("count", "sizes", "drops", "expected"),
    [
        (3, [2, 0, 1], False, [[0, 1], [], [2]]),
        (4, [2, 0, 1], False, [[0, 1], [], [2], [3]]),
        (4, [2, 0], False, [[0, 1], [], [2, 3], []]),
        (3, [0, 2], True, [[], [0, 1], []]),
        (0, [0, 2], False, [[]]),
        (0, [2, 0], False, []),
    ],
)
def test_rebatch_returns_empty_batches_for_size_zero(
    count: int, sizes: list[int], drops: bool, expected: list[list[int]]
) -> None:
    assert lists(Dataset.range(count).batch(2).rebatch(sizes, drops)) == expected


def test_empty_batches_have_the_shape_and_type_of_the_others() -> None:
    rows = Dataset.from_tensor_slices(np.zeros([2, 3, 4], "float32")).rebatch([0, 3])
    assert [(one.shape, one.dtype) for one in rows] == [
        ((0, 4), np.dtype("float32")),
        ((3, 4), np.dtype("float32")),
    ] * 2 + [((0, 4), np.dtype("float32"))]


@pytest.mark.parametrize(
    ("sizes", "drops", "known"),
    [(2, False, 2), (3, False, None), (3, True, 3), ([2, 4], True, None), (0, False, None)],
)
def test_rebatch_has_a_static_size_if_known(sizes: Any, drops: bool, known: int | None) -> None:
    batches = Dataset.range(8).batch(4, drop_remainder=True)
    assert batches.rebatch(sizes, drops).element_spec == TensorSpec([known], "int64")


def test_rebatch_refuses_wrong_arguments() -> None:
    batches = Dataset.range(8).batch(4)
    with pytest.raises(errors.InvalidArgumentError, match="an element is a scalar"):
        Dataset.range(8).rebatch(2)
    for sizes in ([2, -1], []):
        with pytest.raises(errors.InvalidValueError, match="sizes that are not negative"):
            batches.rebatch(sizes)
    with pytest.raises(errors.InvalidValueError, match="a scalar or a vector"):
        batches.rebatch([[2]])


def test_errors_come_after_the_elements_before_them_in_a_parallel_map() -> None:
    numbers = Dataset.from_tensor_slices([3, 2, 0, 6]).map(lambda x: 6 // x)
    elements = iter(numbers.map(lambda x: x + 10, num_parallel_calls=4))
    assert [int(next(elements)), int(next(elements))] == [12, 13]
    with pytest.raises(errors.InvalidArgumentError, match="division by zero"):
        next(elements)
    assert int(next(elements)) == 11


def test_elements_with_errors_are_skipped() -> None:
    dataset = Dataset.from_tensor_slices([1, 0, 2]).map(lambda x: 6 // x)
    assert lists(dataset.ignore_errors()) == [6, 3]


@pytest.mark.parametrize("log_warning", [False, True])
def test_skipped_elements_are_logged_on_request(
    log_warning: bool, caplog: pytest.LogCaptureFixture
) -> None:
    dataset = Dataset.from_tensor_slices([1, 0, 2]).map(lambda x: 6 // x)
    assert lists(dataset.ignore_errors(log_warning)) == [6, 3]
    found = [one.getMessage() for one in caplog.records if one.name == "graphmill.kernels"]
    assert len(found) == log_warning
    assert all("skipped an element" in text and "division by zero" in text for text in found)
