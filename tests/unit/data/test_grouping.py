"""`Dataset.group_by_window` and `bucket_by_sequence_length` without TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphmill import errors
from graphmill import functions as F
from graphmill.data import Dataset, TensorSpec


def lists(dataset: Dataset) -> list[Any]:
    return [np.asarray(element).tolist() for element in dataset]


def ragged() -> Dataset:
    """Return rows of 1 to 5 elements, all equal to its length."""
    return Dataset.range(1, 6).map(lambda x: F.fill([x], x))


def length(row: Any) -> Any:
    return F.shape(row)[0]


def test_windows_have_elements_of_one_key() -> None:
    dataset = Dataset.range(7).group_by_window(lambda x: x % 2, lambda _, g: g.batch(9), 2)
    assert lists(dataset) == [[0, 2], [1, 3], [4, 6], [5]]
    assert dataset.element_spec == TensorSpec([None], "int64")


def test_the_window_size_may_depend_on_the_key() -> None:
    dataset = Dataset.range(8).group_by_window(
        lambda x: x % 2, lambda _, g: g.batch(9), window_size_func=lambda key: key * 2 + 1
    )
    assert lists(dataset) == [[0], [2], [4], [1, 3, 5], [6], [7]]


def test_key_may_be_a_python_number() -> None:
    dataset = Dataset.range(3).group_by_window(lambda x: 0, lambda key, g: g.skip(1), 2)
    assert lists(dataset) == [1]


def test_group_by_window_refuses_wrong_arguments() -> None:
    group = Dataset.range(2).group_by_window
    with pytest.raises(errors.InvalidValueError, match="either `window_size` or"):
        group(lambda x: x, lambda _, g: g)
    with pytest.raises(errors.InvalidValueError, match="either `window_size` or"):
        group(lambda x: x, lambda _, g: g, 1, lambda key: key)
    with pytest.raises(errors.InvalidValueError, match="`key_func` must give a scalar int64"):
        group(lambda x: F.cast(x, "int32"), lambda _, g: g, 1)
    with pytest.raises(errors.InvalidValueError, match="`window_size_func` must give a scalar"):
        group(lambda x: x, lambda _, g: g, window_size_func=lambda key: F.cast(key, "int32"))
    with pytest.raises(errors.InvalidValueError, match="`reduce_func` must return a Dataset"):
        group(lambda x: x, lambda key, _: key, 1)
    with pytest.raises(errors.InvalidArgumentError, match="window_size"):
        group(lambda x: x, lambda _, g: g, "two")
    with pytest.raises(errors.InvalidArgumentError, match="must be greater than zero"):
        list(group(lambda x: x, lambda _, g: g, 0))


def test_buckets_are_padded_to_the_longest_of_the_batch() -> None:
    dataset = ragged().bucket_by_sequence_length(length, [3], [2, 2])
    assert lists(dataset) == [[[1, 0], [2, 2]], [[3, 3, 3, 0], [4, 4, 4, 4]], [[5] * 5]]


def test_buckets_are_padded_to_the_boundary() -> None:
    dataset = ragged().bucket_by_sequence_length(
        length,
        bucket_boundaries=[4, 8],
        bucket_batch_sizes=[2, 2, 1],
        padded_shapes=[None],
        padding_values=np.int64(-1),
        pad_to_bucket_boundary=True,
        drop_remainder=True,
    )
    assert lists(dataset) == [
        [[1, -1, -1], [2, 2, -1]],
        [[4, 4, 4, 4, -1, -1, -1], [5, 5, 5, 5, 5, -1, -1]],
    ]


def test_elements_of_the_last_bucket_have_no_boundary() -> None:
    dataset = ragged().bucket_by_sequence_length(length, [3], [2, 2], pad_to_bucket_boundary=True)
    with pytest.raises(errors.InvalidArgumentError, match="shorter than the last"):
        list(dataset)


def test_buckets_are_batched_without_padding() -> None:
    dataset = Dataset.range(5).bucket_by_sequence_length(lambda x: x, [2], [2, 3], no_padding=True)
    assert lists(dataset) == [[0, 1], [2, 3, 4]]


def test_wrong_buckets_are_refused() -> None:
    buckets = ragged().bucket_by_sequence_length
    with pytest.raises(errors.InvalidValueError, match="2 buckets, but there are 1"):
        buckets(length, [3], [2])
    with pytest.raises(errors.InvalidValueError, match="ascending order"):
        buckets(length, [3, 2], [2, 2, 2])
