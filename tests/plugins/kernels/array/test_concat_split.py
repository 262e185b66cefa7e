"""Concatenation and splitting, padding and blocks round-trip."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill import errors
from graphmill_plugins.kernels.array import block as array_block
from graphmill_plugins.kernels.array import concat_split as array_join
from graphmill_plugins.kernels.array import pad as array_pad

X = np.arange(24, dtype=np.float32).reshape(4, 6)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=5), st.integers(-2, 1))
def test_split_and_join_round_trip(sizes, axis):
    shape = [2, 2]
    shape[axis] = sum(sizes)
    x = np.arange(np.prod(shape)).reshape(shape)
    along = np.int32(axis)
    parts = array_join.split_v(np, len(sizes))(x, np.array(sizes), along)
    assert [part.shape[axis] for part in parts] == sizes
    np.testing.assert_array_equal(array_join.concat_v2(np, x.dtype)(parts, along), x)


@given(st.integers(-3, 2), st.integers(1, 4))
def test_pack_and_unpack_round_trip(axis, count):
    values = [np.arange(6).reshape(2, 3) + number for number in range(count)]
    dtype = values[0].dtype
    packed = array_join.pack(np, dtype, axis)(values)
    np.testing.assert_array_equal(packed, np.stack(values, axis))
    for part, value in zip(array_join.unpack(np, dtype, count, axis)(packed), values, strict=True):
        np.testing.assert_array_equal(part, value)


def test_parts_are_views(call):
    for part in call("Split", np.int32(1), X, num_split=3):
        assert np.shares_memory(part, X)


def test_strings_are_packed_and_unpacked_as_arrays(call):
    words = [np.array(word, object) for word in (b"a", b"b")]
    packed = call("Pack", words)
    assert packed.tolist() == [b"a", b"b"]
    assert [part[()] for part in call("Unpack", packed, num=2)] == [b"a", b"b"]


def test_shapes_that_cannot_be_joined_are_named(call):
    with pytest.raises(errors.InvalidArgumentError, match=r"\[4,6\] vs. \[2,5\]"):
        call("ConcatV2", [X, np.ones((2, 5), np.float32)], np.int32(0))


def test_a_split_that_leaves_a_rest_is_refused(call):
    with pytest.raises(errors.InvalidArgumentError, match="evenly divide"):
        call("Split", np.int32(1), X, num_split=4)


@given(st.integers(1, 3), st.integers(1, 3), st.integers(0, 2), st.integers(0, 2))
def test_space_to_batch_round_trip(high, wide, before, after):
    block = np.array([high, wide])
    paddings = np.array([[before * high, 0], [0, after * wide]])
    x = np.arange(2 * 2 * high * 3 * wide * 2).reshape(2, 2 * high, 3 * wide, 2)
    batched = array_block.space_to_batch_nd(np, x, block, paddings)
    back = array_block.batch_to_space_nd(np, batched, block, paddings)
    np.testing.assert_array_equal(back, x)


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_space_to_depth_round_trip(data_format):
    shape = (2, 4, 6, 3) if data_format == "NHWC" else (2, 3, 4, 6)
    x = np.arange(144).reshape(shape)
    deep = array_block.space_to_depth(np, 2, data_format)(x)
    np.testing.assert_array_equal(array_block.depth_to_space(np, 2, data_format)(deep), x)


def test_formats_agree():
    x = np.arange(144).reshape(2, 4, 6, 3)
    last = array_block.space_to_depth(np, 2, "NHWC")(x)
    first = array_block.space_to_depth(np, 2, "NCHW")(x.transpose(0, 3, 1, 2))
    np.testing.assert_array_equal(first.transpose(0, 2, 3, 1), last)


def test_the_vectorized_layout_is_refused_when_the_node_is_bound():
    with pytest.raises(errors.UnimplementedError, match="NCHW_VECT_C"):
        array_block.space_to_depth(np, 2, "NCHW_VECT_C")


@given(
    st.sampled_from(["REFLECT", "SYMMETRIC"]),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=2),
)
def test_a_mirror_is_numpy_s(mode, pairs):
    result = array_pad.mirror_pad(np, mode)(X, np.array(pairs))
    np.testing.assert_array_equal(result, np.pad(X, pairs, mode=mode.lower()))


@given(
    st.sampled_from(["REFLECT", "SYMMETRIC"]),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=2),
)
def test_the_gradient_of_a_mirror_is_its_adjoint(mode, pairs):
    paddings = np.array(pairs)
    padded = array_pad.mirror_pad(np, mode)(X, paddings)
    dy = np.arange(padded.size).reshape(padded.shape) % 7.0
    folded = array_pad.mirror_pad_grad(np, mode)(dy, paddings)
    assert (padded * dy).sum() == (X * folded).sum()


@pytest.mark.parametrize(("mode", "most"), [("REFLECT", 3), ("SYMMETRIC", 4)])
def test_mirror_padding_is_limited_by_the_input(call, mode, most):
    paddings = np.array([[most, 0], [0, 0]], np.int32)
    call("MirrorPad", X, paddings, mode=mode)
    with pytest.raises(errors.InvalidArgumentError, match="no greater"):
        call("MirrorPad", X, paddings + np.array([[1, 0], [0, 0]]), mode=mode)
