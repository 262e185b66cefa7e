"""`TensorShape`: partially known shapes are combined and compared (clause G5)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill import proto
from graphmill.errors import InvalidArgumentError
from graphmill.ops.inference.tensor_shape import UNKNOWN_SHAPE, TensorShape

SHAPES = st.none() | st.lists(st.none() | st.integers(0, 3), max_size=4)
KNOWN = st.lists(st.integers(0, 3), max_size=4)


@pytest.mark.parametrize("dims", [(None, 3), (), None, (2,)])
def test_it_equals_its_sizes(dims: tuple[int | None, ...] | None) -> None:
    assert TensorShape(dims) == dims
    assert TensorShape(TensorShape(dims)) == dims


def test_minus_one_is_unknown() -> None:
    assert TensorShape([-1, 2]) == (None, 2)


def test_a_message_is_read() -> None:
    message = proto.TensorShapeProto()
    message.dim.add(size=-1)
    message.dim.add(size=4)
    assert TensorShape(message) == (None, 4)
    assert TensorShape(proto.TensorShapeProto(unknown_rank=True)) == UNKNOWN_SHAPE


@pytest.mark.parametrize("bad", [3, "ab", [1.5], [-2]])
def test_invalid_shape_is_refused(bad: object) -> None:
    with pytest.raises(InvalidArgumentError):
        TensorShape(bad)


def test_the_sizes_of_an_unknown_rank_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="rank"):
        list(UNKNOWN_SHAPE)
    assert UNKNOWN_SHAPE[0] is None
    assert UNKNOWN_SHAPE[1:] == UNKNOWN_SHAPE


def test_axes_are_put_in_and_taken_out() -> None:
    shape = TensorShape([2, None, 4])
    assert shape.with_axis(1) == (2, 4)
    assert shape.with_axis(-1, 7, 8) == (2, None, 7, 8)
    assert shape.with_new_axis(0, 1) == (1, 2, None, 4)
    assert TensorShape([9]).concatenate(shape) == (9, 2, None, 4)
    assert shape.num_elements() is None
    assert shape[::2].num_elements() == 8


@given(KNOWN, KNOWN)
def test_static_shapes_broadcast_as_in_numpy(one: list[int], other: list[int]) -> None:
    try:
        expected: object = np.broadcast_shapes(tuple(one), tuple(other))
    except ValueError:
        with pytest.raises(InvalidArgumentError):
            TensorShape(one).broadcast_with(TensorShape(other))
    else:
        assert TensorShape(one).broadcast_with(TensorShape(other)) == expected


@given(SHAPES, SHAPES)
def test_merging_shapes_keeps_sizes_of_either(one: object, other: object) -> None:
    left, right = TensorShape(one), TensorShape(other)
    if not left.is_compatible_with(right):
        with pytest.raises(InvalidArgumentError):
            left.merge_with(right)
        return
    merged = left.merge_with(right)
    assert merged == right.merge_with(left)
    assert merged.merge_with(left) == merged.merge_with(right) == merged


@given(SHAPES, SHAPES)
def test_relaxing_shapes_keeps_common_sizes(one: object, other: object) -> None:
    left, right = TensorShape(one), TensorShape(other)
    relaxed = left.relaxed_with(right)
    assert relaxed == right.relaxed_with(left)
    assert relaxed.is_compatible_with(left)
    assert relaxed.is_compatible_with(right)
    assert left.relaxed_with(left) == left


def test_assertions_are_those_of_tensorflow() -> None:
    shape = TensorShape([None, 2])
    shape.assert_has_rank(2)
    shape.assert_same_rank([1, 1])
    shape.assert_is_compatible_with([5, 2])
    TensorShape([1]).assert_is_fully_defined()
    assert shape.with_rank_at_most(2) is shape
    TensorShape(None).assert_has_rank(3)
    for check in (
        lambda: shape.assert_has_rank(1),
        lambda: shape.assert_same_rank([1]),
        lambda: shape.assert_is_compatible_with([5, 3]),
        shape.assert_is_fully_defined,
        lambda: shape.with_rank_at_most(1),
    ):
        with pytest.raises(ValueError, match="Shape"):
            check()


def test_shape_is_written_as_a_message() -> None:
    message = TensorShape([None, 2]).as_proto()
    assert TensorShape(message) == [None, 2]
    assert TensorShape(None).as_proto().unknown_rank
