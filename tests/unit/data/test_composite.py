"""`Dataset.ragged_batch` and `sparse_batch`; the values are those of TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphmill import errors
from graphmill import functions as F
from graphmill.data import Dataset, RaggedTensor, SparseTensor, TensorSpec


def ragged(count: int) -> Dataset:
    """Return rows of 0, 1, 2 … elements, all equal to the length."""
    return Dataset.range(count).map(lambda number: F.fill([number], number))


def parts(tensor: Any) -> Any:
    if isinstance(tensor, tuple):
        return [parts(part) for part in tensor]
    return np.asarray(tensor).tolist()


def test_rows_of_different_lengths() -> None:
    batches = ragged(4).ragged_batch(3)
    splits = TensorSpec([None], "int64")
    assert batches.element_spec == RaggedTensor(TensorSpec([None], "int64"), (splits,))
    first, last = list(batches)
    assert isinstance(first, RaggedTensor)
    assert parts(first) == [[1, 2, 2], [[0, 0, 1, 3]]]
    assert parts(last) == [[3, 3, 3], [[0, 3]]]


def test_only_parts_of_unknown_size_become_ragged() -> None:
    pairs = ragged(3).map(lambda row: {"row": row, "pair": [1.0, 2.0]})
    (batch,) = pairs.ragged_batch(2, drop_remainder=True, row_splits_dtype="int32")
    assert batch["pair"].tolist() == [[1.0, 2.0], [1.0, 2.0]]
    assert parts(batch["row"]) == [[1], [[0, 0, 1]]]
    assert batch["row"].nested_row_splits[0].dtype == np.int32


def test_axes_before_the_last_unknown_one_are_ragged() -> None:
    images = Dataset.range(1, 3).map(lambda n: F.fill(F.stack([n, 2, n, 3]), n))
    (batch,) = images.ragged_batch(2)
    assert batch.flat_values.tolist() == [[1] * 3] * 2 + [[2] * 3] * 8
    assert parts(batch.nested_row_splits) == [[0, 1, 3], [0, 2, 4, 6], [0, 1, 2, 4, 6, 8, 10]]


def test_ragged_batch_can_be_mapped() -> None:
    lengths = ragged(4).ragged_batch(2).map(lambda batch: batch.nested_row_splits[0])
    assert [row.tolist() for row in lengths] == [[0, 0, 1], [0, 2, 5]]


def test_sparse_batches() -> None:
    first, last = list(ragged(3).sparse_batch(2, [4]))
    assert isinstance(first, SparseTensor)
    assert parts(first) == [[[1, 0]], [1], [2, 4]]
    assert parts(last) == [[[0, 0], [0, 1]], [2, 2], [1, 4]]


def test_unknown_size_of_a_row_is_that_of_the_longest() -> None:
    assert [parts(batch)[2] for batch in ragged(4).sparse_batch(2, [None])] == [[2, 1], [2, 3]]


def test_invalid_batch_arguments_are_refused() -> None:
    with pytest.raises(errors.InvalidValueError, match="int32 or int64, not float32"):
        ragged(2).ragged_batch(2, row_splits_dtype="float32")
    with pytest.raises(errors.InvalidArgumentError, match="ragged_batch: batch_size must be"):
        ragged(2).ragged_batch(0)
    with pytest.raises(errors.InvalidValueError, match="elements must be one tensor"):
        Dataset.zip(ragged(2), ragged(2)).sparse_batch(2, [3])
    with pytest.raises(errors.InvalidValueError, match="row_shape has 2 axes, elements have 1"):
        ragged(2).sparse_batch(2, [3, 3])
    with pytest.raises(errors.InvalidValueError, match="a list of sizes or None, got 3"):
        ragged(2).sparse_batch(2, 3)
    with pytest.raises(errors.DataLossError, match="larger than the row shape"):
        list(ragged(4).sparse_batch(2, [2]))
