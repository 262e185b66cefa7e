"""Tensor maps: key order, empty keys, and sums of mismatched maps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels.tensor_map import ops

if TYPE_CHECKING:
    from graphmill_plugins.kernels.tensor_map._tensor_map import TensorMap

INT = dtypes.int32.as_numpy_dtype
ONE = np.float32(1)
VARIANT = dtypes.variant.as_numpy_dtype


def filled(keys: list[int], value: Any = ONE) -> TensorMap:
    """Return a map from each key to the value."""
    made = ops.empty_tensor_map()
    for key in keys:
        made = ops.tensor_map_insert(made, np.int32(key), value, INT, value.dtype)
    return made


def test_stacked_keys_have_the_order_of_their_first_insertion():
    stacked = ops.tensor_map_stack_keys(np, filled([5, 3, 9, 3, 1]), INT)
    assert stacked.tolist() == [5, 3, 9, 1]
    assert stacked.dtype == np.int32


def test_insert_and_erase_leave_the_source_unchanged():
    source = filled([1])
    ops.tensor_map_insert(source, np.int32(2), np.float32(1), INT, np.dtype(np.float32))
    ops.tensor_map_erase(source, np.int32(1), INT, np.dtype(np.float32))
    assert ops.tensor_map_stack_keys(np, source, INT).tolist() == [1]


def test_variant_key_is_refused():
    empty = ops.empty_tensor_map()
    with pytest.raises(InvalidArgumentError, match="variant cannot be the key of a map"):
        ops.tensor_map_has_key(empty, empty, VARIANT)


def test_sum_unites_keys_and_adds_common_values():
    total = filled([1, 2]).add(np, filled([2, 3], np.float32(5)))
    values = [float(entry.value) for entry in total.entries.values()]
    assert values == [1, 6, 5]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (filled([1], np.float64(1)), "float and double"),
        (filled([1], np.ones(2, np.float32)), "shapes"),
        (object(), "cannot add"),
    ],
)
def test_sum_with_other_values_is_refused(other, message):
    with pytest.raises(InvalidArgumentError, match=message):
        filled([1]).add(np, other)
