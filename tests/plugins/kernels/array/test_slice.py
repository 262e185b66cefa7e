"""Slices equal Python's own indexing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill import errors
from graphmill_plugins.kernels.array.index_plan import index_maker
from graphmill_plugins.kernels.array.slice import KERNELS, strided_slice

X = np.arange(60).reshape(3, 4, 5)
NO_MASKS = {
    "begin_mask": 0, "end_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0, "shrink_axis_mask": 0
}  # fmt: skip
RANGE = st.builds(
    slice,
    st.none() | st.integers(-7, 7),
    st.none() | st.integers(-7, 7),
    st.integers(-3, 3).filter(bool),
)
POINT = st.integers(-3, 2)


@st.composite
def indices(draw: st.DrawFn) -> tuple:
    """Draw an index of at most three dimensions, with new axes and perhaps an ellipsis."""
    items = draw(st.lists(RANGE | POINT, max_size=3))
    items = [*items, *draw(st.lists(st.none(), max_size=2))]
    items = list(draw(st.permutations(items)))
    if draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), ...)
    return tuple(items)


def as_strided_slice(index: tuple) -> tuple[list[np.ndarray], dict[str, int]]:
    """Return an index as TensorFlow's begin, end and strides with masks."""
    masks = dict(NO_MASKS)
    rows = []
    for position, item in enumerate(index):
        bit = 1 << position
        row = (0, 0, 1)
        if item is ...:
            masks["ellipsis_mask"] |= bit
        elif item is None:
            masks["new_axis_mask"] |= bit
        elif isinstance(item, int):
            masks["shrink_axis_mask"] |= bit
            row = (item, item + 1, 1)
        else:
            masks["begin_mask"] |= bit * (item.start is None)
            masks["end_mask"] |= bit * (item.stop is None)
            row = (item.start or 0, item.stop or 0, item.step)
        rows.append(row)
    columns = np.array(rows, np.int32).reshape(-1, 3).T
    return list(columns), masks


@settings(max_examples=300)
@given(indices())
def test_a_strided_slice_is_python_s_index(index):
    bounds, masks = as_strided_slice(index)
    result = strided_slice(np, X.dtype, **masks)(X, *bounds)
    np.testing.assert_array_equal(result, X[index])


def test_a_slice_is_a_view(call):
    begin, size = np.array([1, 0, 2], np.int32), np.array([2, -1, 1], np.int32)
    result = call("Slice", X, begin, size)
    assert np.shares_memory(result, X)
    np.testing.assert_array_equal(result, X[1:3, :, 2:3])


def test_a_point_outside_is_named(call):
    point = np.array([3], np.int32)
    with pytest.raises(errors.InvalidArgumentError, match="slice index 3 of dimension 0"):
        call("StridedSlice", X, point, point, np.array([1], np.int32), shrink_axis_mask=1)


def test_two_ellipses_are_refused_when_the_node_is_bound():
    with pytest.raises(errors.InvalidArgumentError, match="ellipses"):
        index_maker(0, 0, 3, 0, 0)


def test_one_string_stays_an_array(call):
    x, at, step = np.array([b"a", b"b"], object), np.array([1], np.int32), np.array([1], np.int32)
    result = call("StridedSlice", x, at, at, step, shrink_axis_mask=1)
    assert isinstance(result, np.ndarray)
    assert result[()] == b"b"


@given(indices())
def test_the_gradient_puts_the_slice_back(index):
    bounds, masks = as_strided_slice(index)
    (strided_slice_grad,) = (made.function for made in KERNELS if "Grad" in made.ops[0])
    dy = np.asarray(X[index]) + 1
    result = strided_slice_grad(X.dtype, **masks)(np.array(X.shape), *bounds, dy)
    expected = np.zeros_like(X)
    expected[index] = dy
    np.testing.assert_array_equal(result, expected)


def test_each_slice_of_a_node_follows_its_bounds_and_shape() -> None:
    cut = strided_slice(np, X.dtype, **NO_MASKS)
    begin, end, step = (np.array([bound], np.int32) for bound in (0, 2, 1))
    np.testing.assert_array_equal(cut(X, begin, end, step), X[0:2])
    begin[0], end[0] = 1, -1  # a caller may write to the arrays that it feeds
    np.testing.assert_array_equal(cut(X, begin, end, step), X[1:-1])
    np.testing.assert_array_equal(cut(X[0], begin, end, step), X[0, 1:-1])
    with pytest.raises(errors.InvalidArgumentError, match="1D equal size"):
        cut(X, begin[None], end[None], step[None])


def test_a_point_is_checked_against_each_shape() -> None:
    cut = strided_slice(np, X.dtype, **{**NO_MASKS, "shrink_axis_mask": 1})
    point, step = np.array([2], np.int32), np.array([1], np.int32)
    np.testing.assert_array_equal(cut(X, point, point, step), X[2])
    with pytest.raises(errors.InvalidArgumentError, match="slice index 2 of dimension 0"):
        cut(X[:2], point, point, step)
