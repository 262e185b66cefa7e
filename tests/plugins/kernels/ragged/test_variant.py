"""Variants of ragged tensors are added only if their splits are the same."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels.ragged._ragged import RaggedVariant
from graphmill_plugins.kernels.ragged.variant import ragged_tensor_to_variant_gradient

SPLITS = np.array([0, 2, 3])
VALUES = np.array([1.0, 2.0, 3.0])


def test_values_with_equal_splits_are_added():
    total = RaggedVariant((SPLITS,), VALUES).add(np, RaggedVariant((SPLITS.copy(),), VALUES))
    assert total.values.tolist() == [2, 4, 6]
    assert [splits.tolist() for splits in total.nested_splits] == [[0, 2, 3]]


@pytest.mark.parametrize("others", [(), (SPLITS, np.array([0, 1, 2, 3])), (np.array([0, 1, 3]),)])
def test_other_splits_are_refused(others):
    """Splits of fewer or more levels differ too, even if those of the common levels are equal."""
    with pytest.raises(InvalidArgumentError, match="only if their splits are equal"):
        RaggedVariant((SPLITS,), VALUES).add(np, RaggedVariant(others, VALUES))


ROWS = np.empty(2, object)
ROWS[:] = [RaggedVariant((), VALUES[:2]), RaggedVariant((), VALUES[2:])]


@pytest.mark.parametrize(
    ("encoded", "splits", "shape", "dtype", "message"),
    [
        (ROWS, SPLITS, [3], np.float32, "Expected values Tensor dtype: float32, found: float64"),
        (ROWS[0], SPLITS, [2], np.float32, "Expected values Tensor dtype"),
        (object(), SPLITS, [2], np.float64, "doesn't hold a RaggedTensorVariant"),
        (ROWS, SPLITS, [4], np.float64, "the gradients have 3 elements"),
        (ROWS, np.array([0, 3]), [3], np.float64, "1 rows, but there are 2 gradients"),
        (ROWS, np.array([0, 5, 3]), [3], np.float64, "row 1 does"),
    ],
)
def test_wrong_gradients_are_refused(encoded, splits, shape, dtype, message):
    with pytest.raises(InvalidArgumentError, match=message):
        ragged_tensor_to_variant_gradient(encoded, splits, np.array(shape), np.dtype(dtype))
