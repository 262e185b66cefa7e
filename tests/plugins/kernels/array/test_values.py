"""Ops that depend on values: distinct values, checks, one-hot, distances, slice assignment."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill import errors
from graphmill.dtypes import float32
from graphmill.runtime.resources.variables import Ref, ResourceHandle, Variable
from graphmill_plugins.kernels.array import edit_distance as array_edit_distance
from graphmill_plugins.kernels.array import unique as array_unique

INT32 = np.dtype(np.int32)


@given(st.lists(st.sampled_from([b"", b"a", b"b", b"ab"])))
def test_unique_strings_are_in_order_of_occurrence(words):
    x = np.empty(len(words), object)
    x[:] = words
    values, numbers = array_unique.unique(x, out_idx=INT32)
    assert values.tolist() == list(dict.fromkeys(words))
    assert [values[number] for number in numbers] == words


@given(st.lists(st.integers(-3, 3)))
def test_unique_numbers_are_in_order_of_occurrence(numbers):
    x = np.array(numbers, np.int64)
    values, places, counts = array_unique.unique_with_counts(x, out_idx=INT32)
    assert values.tolist() == list(dict.fromkeys(numbers))
    np.testing.assert_array_equal(values[places], x)
    assert counts.sum() == len(numbers)


def test_every_nan_is_distinct(call):
    values, _ = call("Unique", np.array([np.nan, 1, np.nan], np.float32))
    assert values.size == 3


@pytest.mark.parametrize(
    ("values", "message"),
    [([1, np.nan], "m : Tensor had NaN"), ([np.inf], "had Inf"), ([np.inf, np.nan], "Inf and NaN")],
)
def test_check_numerics_names_nan_or_inf(call, values, message):
    with pytest.raises(errors.InvalidArgumentError, match=message):
        call("CheckNumerics", np.array(values, np.float32), message="m")


def test_check_numerics_returns_its_input_itself(call):
    x = np.ones(3, np.float32)
    assert call("CheckNumerics", x, message="m") is x


@given(st.text("abc", max_size=5), st.text("abc", max_size=5))
def test_distances_are_symmetric_and_bounded(a, b):
    distance = array_edit_distance._levenshtein(list(a), list(b))
    assert distance == array_edit_distance._levenshtein(list(b), list(a))
    assert abs(len(a) - len(b)) <= distance <= max(len(a), len(b))
    assert (distance == 0) == (a == b)


@pytest.mark.parametrize("count", [3, 5000])
@pytest.mark.parametrize("axis", [-1, 0])
def test_one_hot_omits_indices_out_of_range(call, count, axis):
    indices = np.arange(-1, count - 1, dtype=np.int32)
    result = call("OneHot", indices, np.int32(7), np.float32(2), np.float32(0), axis=axis)
    if axis == 0:
        result = result.T
    np.testing.assert_array_equal(result, (indices[:, None] == np.arange(7)) * 2)


def slice_bounds() -> list[np.ndarray]:
    return [np.array([bound], np.int32) for bound in (1, 3, 1)]


def test_assignment_to_a_slice_leaves_readers_their_value(bind_kernel):
    ref = Ref(float32, name="v")
    held = ref.value = np.zeros(4, np.float32)
    value = np.ones(2, np.float32)
    compute = bind_kernel("StridedSliceAssign", held, *slice_bounds(), value).compute
    assert compute(None, ref, *slice_bounds(), value) is ref
    np.testing.assert_array_equal(ref.value, [0, 1, 1, 0])
    np.testing.assert_array_equal(held, np.zeros(4))


def test_assignment_to_a_slice_of_a_resource_broadcasts(bind_kernel):
    variable = Variable(float32, name="v")
    variable.value = np.zeros(4, np.float32)
    handle = ResourceHandle("/cpu:0", "c", "v", "Variable", variable)
    kernel = bind_kernel("ResourceStridedSliceAssign", handle, *slice_bounds(), np.float32(5))
    kernel.compute(None, handle, *slice_bounds(), np.float32(5))
    np.testing.assert_array_equal(variable.value, [0, 5, 5, 0])


def test_assignment_to_a_slice_of_nothing_raises(bind_kernel):
    ref = Ref(float32, name="v")
    kernel = bind_kernel(
        "StridedSliceAssign", np.zeros(4, np.float32), *slice_bounds(), np.float32(5)
    )
    with pytest.raises(errors.FailedPreconditionError, match="uninitialized value v"):
        kernel.compute(None, ref, *slice_bounds(), np.float32(5))
