"""Inputs of cases are parsed, and their values drawn."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.testing.case_inputs import SpecError, parse_input


def draw(text, **types):
    return parse_input(text, types, "seed").values()


def test_a_drawn_value_never_changes():
    """Drawn values never change, because golden results depend on their exact bits."""
    texts = ["float32[4,4]", "int8[7]", "complex128[3]", "float16[5] 0..1", "int64[6] distinct"]
    content = b"".join(
        draw(text).astype("<" + draw(text).dtype.str[1:]).tobytes() for text in texts
    )
    assert hashlib.sha256(content).hexdigest()[:16] == "ebfed4bdc9f6e5f7"


def test_the_dtype_may_be_a_type_attr():
    assert draw("T[2]", T="int64").dtype == np.int64


def test_the_draw_depends_on_place_and_text():
    assert not np.array_equal(
        parse_input("float32[4]", {}, "a").values(), parse_input("float32[4]", {}, "b").values()
    )


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("float32[99]", -2, 2),
        ("float64[99] 0.5..4", 0.5, 4),
        ("int32[99]", -9, 9),
        ("uint8[99]", 0, 9),
    ],
)
def test_values_are_drawn_from_the_range(text, low, high):
    values = draw(text)
    assert values.min() >= low
    assert values.max() <= high
    assert len(np.unique(values)) > 8


def test_integers_reach_both_ends():
    assert set(draw("int32[99] 3..5")) == {3, 4, 5}


def test_distinct_iota_fill_choice_sorted():
    assert sorted(draw("int32[5] distinct")) == [0, 1, 2, 3, 4]
    assert draw("float32[2,2] iota").tolist() == [[0, 1], [2, 3]]
    assert draw("int8[3] fill 7").tolist() == [7, 7, 7]
    assert set(draw("int32[50] choice 1 2 5")) == {1, 2, 5}
    assert (np.diff(draw("float32[9] sorted")) >= 0).all()


def test_spd_is_positive_definite():
    matrix = draw("complex64[3,3] spd")
    assert np.allclose(matrix, matrix.conj().T)
    assert (np.linalg.eigvalsh(matrix) > 0).all()


def test_literals_are_parsed():
    assert draw("float32: [1, nan, -inf]").tolist()[::2] == [1, -np.inf]
    assert draw("int64: 9007199254740993").item() == 2**53 + 1
    assert draw("uint64: [18446744073709551615]").tolist() == [2**64 - 1]
    assert draw("string: [['a', b'\\xff'], ['', 'é']]").tolist() == [
        [b"a", b"\xff"],
        [b"", "é".encode()],
    ]
    assert draw("complex64: 1+2j").item() == 1 + 2j


def test_plain_numbers_have_natural_dtypes():
    for value, dtype in [
        (3, "int32"),
        ([1, 2], "int32"),
        (1.5, "float32"),
        ([1, 0.5], "float32"),
        (True, "bool"),
    ]:
        assert draw(value).dtype == dtype


def test_special_values_include_the_extremes():
    floats = draw("float16 special")
    assert np.isnan(floats).any()
    assert np.isinf(floats).any()
    assert draw("int8 special").min() == -128
    assert np.isfinite(draw("float32 special finite")).all()
    assert np.abs(draw("float32 special small")).max() <= 20
    assert draw("float32 special column").shape == (len(draw("float32 special")), 1)
    assert draw("bfloat16 special").dtype.name == "bfloat16"


def test_nan_is_put_in_one_place():
    assert np.isnan(draw("float32[3] 0..1 nan")).tolist() == [False, True, False]


def test_quantized_values_are_held_by_their_integers():
    assert draw("quint8[3]").dtype == np.uint8


@pytest.mark.parametrize(
    "text", ["flat32[2]", "float32[a]", "", "float32: [1, oops]", "float32: open('x')"]
)
def test_invalid_input_is_refused(text):
    with pytest.raises(SpecError):
        draw(text)


def test_a_list_without_dtype_is_refused():
    with pytest.raises(SpecError, match="has no dtype"):
        draw([[]])


@given(
    st.sampled_from(["float32", "int16", "bool", "string", "complex64"]),
    st.lists(st.integers(0, 4), max_size=3),
)
def test_any_shape_is_drawn(dtype, shape):
    values = draw(f"{dtype}[{','.join(map(str, shape))}]")
    assert list(values.shape) == shape


def test_an_unknown_word_is_refused_with_the_known_ones():
    with pytest.raises(SpecError, match=r"'uniform'; expected a range LOW\.\.HIGH.*sorted"):
        draw("float32[2] uniform")
