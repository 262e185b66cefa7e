"""Gathers and scatters: invalid indices, copies, duplicates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from graphmill import errors
from graphmill_plugins.kernels.array import gather as array_gather
from graphmill_plugins.kernels.array import scatter as array_scatter

X = np.arange(6, dtype=np.float32).reshape(3, 2)


def ints(*values) -> np.ndarray:
    return np.array(values, np.int32)


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        (ints(0, 3), r"indices\[1\] = 3 is not in \[0, 3\)"),
        (ints(-1), r"indices\[0\] = -1 is not in \[0, 3\)"),
        (ints([0, 1], [2, 9]), r"indices\[1,1\] = 9 is not in \[0, 3\)"),
        (np.int32(7), r"indices = 7 is not in \[0, 3\)"),
        (np.full(99, 5), r"indices\[0\] = 5"),
    ],
)
def test_an_index_out_of_range_is_named(call, indices, message):
    with pytest.raises(errors.InvalidArgumentError, match=message):
        call("GatherV2", X, indices, np.int32(0))


def test_an_index_vector_out_of_range_is_named(call):
    with pytest.raises(errors.InvalidArgumentError, match=r"indices\[1\] = \[3, 0\]"):
        call("GatherNd", X, ints([0, 0], [3, 0]))


def test_one_string_stays_an_array(call):
    x = np.array([b"a", b"b"], object)
    for result in (call("Gather", x, np.int32(1)), call("GatherV2", x, np.int32(1), np.int32(0))):
        assert isinstance(result, np.ndarray)
        assert result[()] == b"b"


@given(st.integers(0, 2), st.integers(0, 1), st.integers(0, 2), st.data())
def test_a_batched_gather_is_a_loop_over_batches(batch_dims, between, own, data):
    axis = batch_dims + between
    params = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    shape = params.shape[:batch_dims] + (2, 3)[:own]
    indices = data.draw(
        hnp.arrays(np.int64, shape, elements=st.integers(0, params.shape[axis] - 1))
    )
    (gather_v2,) = (made.function for made in array_gather.KERNELS if made.ops == ("GatherV2",))
    result = gather_v2(params.dtype, batch_dims)(params, indices, np.int32(axis))
    for place in np.ndindex(*params.shape[:batch_dims]):
        expected = params[place].take(indices[place], between)
        np.testing.assert_array_equal(result[place], expected)


@pytest.mark.parametrize("op", ["TensorScatterUpdate", "TensorScatterAdd", "TensorScatterMax"])
def test_the_tensor_is_copied(call, op):
    before = X.copy()
    call(op, X, ints([0]), np.ones((1, 2), np.float32))
    np.testing.assert_array_equal(X, before)


@given(
    hnp.arrays(np.int32, st.tuples(st.integers(0, 150), st.just(1)), elements=st.integers(0, 4)),
    st.sampled_from([1, 3]),
    st.sampled_from([np.add, np.subtract, np.maximum, np.minimum]),
)
def test_duplicates_combine_one_after_the_other(indices, width, ufunc):
    updates = np.arange(indices.shape[0] * width, dtype=np.int64).reshape(-1, width) - 7
    target = np.arange(5 * width).reshape(5, width)
    expected = target.copy()
    ufunc.at(expected, indices[:, 0], updates)
    result = array_scatter.scatter(ufunc, target.copy(), indices, updates, ignore=False)
    np.testing.assert_array_equal(result, expected)


def test_the_last_of_several_assignments_stays(call):
    result = call("TensorScatterUpdate", X[:, 0], ints([1], [1]), np.array([8, 9], np.float32))
    np.testing.assert_array_equal(result, [0, 9, 4])


def test_updates_that_do_not_fit_name_the_shapes(call):
    with pytest.raises(errors.InvalidArgumentError, match=r"updates \[1,3\].*expected \[1,2\]"):
        call("TensorScatterAdd", X, ints([0]), np.ones((1, 3), np.float32))


@pytest.mark.jax
def test_bad_indices_on_jax_take_the_nearest_or_are_dropped(call_jax):
    taken = call_jax("Gather", X, np.array([-5, 9], np.int32))
    np.testing.assert_array_equal(taken, X[[0, 2]])
    added = call_jax("TensorScatterAdd", X, ints([-1], [3]), np.ones((2, 2), np.float32))
    np.testing.assert_array_equal(added, X)


@pytest.mark.parametrize("op", ["InplaceAdd", "InplaceSub"])
@pytest.mark.parametrize("values", [np.array([True]), np.array([b"a"], object)])
def test_rows_that_are_not_numbers_have_no_sum(call, op, values):
    with pytest.raises(errors.NotFoundError, match=op):
        call(op, values, ints(0), values)
