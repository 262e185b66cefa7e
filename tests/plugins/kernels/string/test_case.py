"""The case of letters is changed in all texts at once, as in each of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill_plugins.kernels._strings import string_array
from graphmill_plugins.kernels.string.basic import string_lower, string_upper

KERNELS = {"lower": string_lower, "upper": string_upper}
# Sigma has another small letter at the end of a word, which marks such as U+0301 do not end.
TEXTS = st.text(st.sampled_from("aZ ΑΣσς\u0301\u00adİßﬁ.'北"), max_size=5)
OTHERS = st.sampled_from([b"\xff\xceA", b"Ab\0Cd", b"\0", "\u03a3\0".encode(), b"\xce"])


@pytest.mark.parametrize("change", KERNELS)
@settings(deadline=None, max_examples=200)
@given(st.lists(st.one_of(TEXTS.map(str.encode), OTHERS)))
def test_texts_change_as_each_of_them(change: str, items: list[bytes]) -> None:
    expected = [
        getattr(item.split(b"\0")[0].decode("utf-8", "replace"), change)().encode()
        for item in items
    ]
    assert KERNELS[change](string_array(items), "utf-8").tolist() == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [("lower", "\u03b1\u03c2 \u03c3\u03b1"), ("upper", "\u0391\u03a3 \u03a3\u0391")],
)
def test_the_end_of_a_text_ends_a_word(change: str, expected: str) -> None:
    texts = string_array(["\u0391\u03a3 \u03a3\u0391".encode()] * 3, (3, 1))
    assert KERNELS[change](texts, "utf-8").tolist() == [[expected.encode()]] * 3
