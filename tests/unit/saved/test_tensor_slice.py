"""Slices of tensors: text, messages, keys, bounds."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill import errors
from graphmill.saved.slice_copy import assemble
from graphmill.saved.tensor_slice import (
    FULL,
    TensorSlice,
    is_slice_key,
    parse_shape_and_slice,
    slice_key,
)

extents = st.tuples(st.integers(0, 2**40), st.integers(1, 2**40)) | st.just((0, FULL))
slices = st.lists(extents, max_size=4).map(lambda rows: TensorSlice(tuple(rows)))


@given(slices)
def test_text_and_message_round_trip(value: TensorSlice) -> None:
    assert TensorSlice.parse(str(value)) == value
    assert TensorSlice.from_proto(value.to_proto()) == value


@given(st.text("0123456789,:- a", max_size=12))
def test_any_text_is_a_slice_or_a_typed_error(text: str) -> None:
    with contextlib.suppress(errors.InvalidArgumentError, errors.InternalError):
        TensorSlice.parse(text)
    with contextlib.suppress(errors.InvalidArgumentError, errors.InternalError):
        parse_shape_and_slice(text)


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("4", errors.InvalidArgumentError, "Need at least two elements"),
        ("4 x", errors.InvalidArgumentError, "Expected a pair of numbers or '-'"),
        ("a -", errors.InvalidArgumentError, "Non numerical dimension"),
        ("-4 -", errors.InvalidArgumentError, "out of range"),
        ("4 0,0", errors.InvalidArgumentError, "positive length"),
        ("4 2,3", errors.InternalError, "out of bounds"),
        ("4 -:-", errors.InternalError, "Mismatching ranks"),
    ],
)
def test_bad_specifications_are_refused(text: str, kind: type[errors.OpError], words: str) -> None:
    with pytest.raises(kind, match=words):
        parse_shape_and_slice(text)


def test_slices_have_shapes() -> None:
    shape, piece = parse_shape_and_slice("4 2 1,2:-")
    assert shape == (4, 2)
    assert piece.shape(shape) == (2, 2)
    assert not piece.is_full
    assert TensorSlice.full(2).is_full


def test_keys_of_slices_are_tensorflows() -> None:
    key = slice_key(b"v", TensorSlice.parse("0,2:-"))
    assert key == b"\x00v\x00\x01\x01\x02\x80\x82\x80\x7f"  # as TensorFlow has it
    assert is_slice_key(key)
    assert not is_slice_key(b"v")


@given(st.integers(1, 6), st.integers(1, 6), st.data())
def test_any_slice_is_assembled_from_any_cut(rows: int, columns: int, data: st.DataObject) -> None:
    whole = np.arange(rows * columns).reshape(rows, columns)
    cut = data.draw(st.integers(0, rows))
    pieces = [
        TensorSlice(((start, stop - start), (0, FULL)))
        for start, stop in ((0, cut), (cut, rows))
        if start < stop
    ]
    first = data.draw(st.integers(0, rows - 1))
    expected = TensorSlice(((first, data.draw(st.integers(1, rows - first))), (0, FULL)))
    result = assemble(
        "x", whole.shape, whole.dtype, expected, pieces, lambda p: whole[p.indices(whole.shape)]
    )
    np.testing.assert_array_equal(result, whole[expected.indices(whole.shape)])


def test_pieces_that_do_not_cover() -> None:
    pieces = [TensorSlice.parse("0,2")]
    with pytest.raises(errors.InvalidArgumentError, match="sufficient slices for partitioned"):
        assemble(
            "x", (4,), np.dtype("f4"), TensorSlice.full(1), pieces, lambda _: np.zeros(2, "f4")
        )


def test_overlapping_pieces_are_refused() -> None:
    pieces = [TensorSlice.parse("0,3"), TensorSlice.parse("1,3")]
    with pytest.raises(errors.InvalidArgumentError, match="Overlapping"):
        assemble(
            "x", (4,), np.dtype("f4"), TensorSlice.full(1), pieces, lambda _: np.zeros(3, "f4")
        )


def test_overlapping_pieces_with_gaps_are_refused() -> None:
    pieces = [TensorSlice.parse("0,2"), TensorSlice.parse("1,2")]
    with pytest.raises(errors.InvalidArgumentError, match="Overlapping"):
        assemble(
            "x", (4,), np.dtype("f4"), TensorSlice.full(1), pieces, lambda _: np.zeros(2, "f4")
        )


def test_a_shape_larger_than_any_memory_is_refused() -> None:
    pieces = [TensorSlice.parse("0,2")]
    with pytest.raises(errors.InvalidArgumentError, match="sufficient"):
        assemble(
            "x", (1 << 60,), np.dtype("f4"), TensorSlice.full(1), pieces, lambda _: np.zeros(2)
        )


def test_empty_tensor_is_assembled() -> None:
    result = assemble("x", (0, 3), np.dtype("f4"), TensorSlice.full(2), [], lambda _: np.zeros(0))
    assert result.shape == (0, 3)
