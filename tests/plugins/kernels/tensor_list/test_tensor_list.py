"""Tensor lists beyond op cases: no copies in loops, invalid handles."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill import dtypes, errors
from graphmill_plugins.kernels.array import variant as array_variant
from graphmill_plugins.kernels.math import variant as math_variant
from graphmill_plugins.kernels.tensor_list import ops as tensor_list_ops
from graphmill_plugins.kernels.tensor_list import stack_concat as tensor_list_join
from graphmill_plugins.kernels.tensor_list._tensor_list import TensorList

FLOAT = np.dtype(np.float32)
UNKNOWN = np.int32(-1)


def reserved(length: int) -> TensorList:
    return TensorList(dtypes.float32, (), [None] * length)


def test_a_loop_that_sets_items_copies_nothing():
    made = reserved(1000)
    shared = made._elements.items
    for index in range(1000):
        made = tensor_list_ops.tensor_list_set_item(
            made, np.int32(index), np.float32(index), FLOAT, resize_if_index_out_of_bounds=False
        )
    assert made._elements.items is shared
    stacked = tensor_list_join.tensor_list_stack(np, made, UNKNOWN, FLOAT, -1)
    np.testing.assert_array_equal(stacked, np.arange(1000, dtype=np.float32))


def test_get_returns_the_set_value():
    value = np.ones(3, np.float32)
    made = TensorList(dtypes.float32, None, [value])
    got = tensor_list_ops.tensor_list_get_item(np, made, np.int32(0), UNKNOWN, FLOAT)
    assert got is value


@pytest.mark.parametrize("handle", [np.array([1.0]), np.array(None, object), np.float32(1)])
def test_handle_of_another_kind_is_reported(handle):
    with pytest.raises(errors.InvalidArgumentError, match="list"):
        tensor_list_ops.tensor_list_length(handle)


@pytest.mark.parametrize("index", [-1, -5])
def test_negative_index_is_reported(index):
    made = reserved(2)
    with pytest.raises(errors.InvalidArgumentError, match=f"element {index} in a list with 2"):
        tensor_list_ops.tensor_list_set_item(
            made, np.int32(index), np.float32(1), FLOAT, resize_if_index_out_of_bounds=True
        )
    with pytest.raises(errors.InvalidArgumentError, match="non-negative"):
        tensor_list_join.tensor_list_scatter_into_existing(
            made, np.zeros(1, np.float32), np.array([index], np.int32), FLOAT
        )


def test_scattering_past_the_end_leaves_gaps_unset():
    made = tensor_list_join.tensor_list_scatter_into_existing(
        reserved(1), np.ones(2, np.float32), np.array([3, 0], np.int32), FLOAT
    )
    assert [element is None for element in made.elements()] == [False, True, True, False]


def test_limit_is_passed_on():
    made = TensorList(dtypes.float32, (), [], 1)
    full = tensor_list_ops.tensor_list_push_back(made, np.float32(1), FLOAT)
    with pytest.raises(errors.InvalidArgumentError, match="max_num_elements: 1"):
        tensor_list_ops.tensor_list_push_back(full, np.float32(1), FLOAT)


def test_lists_of_lists_have_zeros_and_sums():
    inner = TensorList(dtypes.float32, (2,), [np.ones(2, np.float32), None])
    outer = TensorList(dtypes.variant, (), [inner])
    total = math_variant.add_n_variant(np, [outer, outer, outer])
    np.testing.assert_array_equal(total.element(0).element(0), np.full(2, 3, np.float32))
    zero = array_variant.zeros_like_variant(np, outer)
    np.testing.assert_array_equal(zero.element(0).element(0), np.zeros(2, np.float32))
    assert zero.element(0).element(1) is None


def test_variants_without_sums_are_reported():
    with pytest.raises(errors.InternalError, match="cannot be added or zeroed"):
        array_variant.zeros_like_variant(np, np.array([None], object))


def test_tensors_of_lists_are_added_one_by_one():
    both = np.empty(2, object)
    both[:] = [TensorList(dtypes.int32, (), [np.int32(n)]) for n in (1, 2)]
    total = math_variant.add_n_variant(np, [both, both])
    assert [made.element(0) for made in total] == [2, 4]
