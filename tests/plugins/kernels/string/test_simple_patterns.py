"""Simple patterns give the results of the pattern itself."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill_plugins.kernels.string._regex import compile_pattern
from graphmill_plugins.kernels.string._simple_patterns import simple_matcher
from graphmill_plugins.kernels.string.regex import regex_full_match

TEXTS = [
    *(b"", b"ab", b"xaby", b"ab cd", b"cd ab", b"aab", b"abb", b"0 9", b"12", b" \t ", b"a.b"),
    *(b"\n", b"ab\n", b"\nab", b"x\nab", "abé".encode(), "éab".encode(), b"\xff", b"ab\xff"),
]
PATTERNS = [
    *(rb"ab", rb".*ab", rb"ab.*", rb".*ab.*", rb"[ab]+", rb"[ab]*", rb"[^ab]*", rb"[^\d]+"),
    *(rb"\d+", rb"\S*", rb"[\s\d]+", rb"[a-b0-9 ]*"),
]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("text", TEXTS)
def test_one_text_matches_as_with_the_pattern(pattern: bytes, text: bytes) -> None:
    compiled = compile_pattern(pattern)
    match = simple_matcher(pattern, compiled)
    assert match is not None
    assert match([text]) in ([compiled.full_match(text)], None)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_ascii_texts_without_line_ends_are_matched_without_the_pattern(pattern: bytes) -> None:
    compiled = compile_pattern(pattern)
    match = simple_matcher(pattern, compiled)
    texts = [text for text in TEXTS if text.isascii() and b"\n" not in text]
    assert match is not None
    assert match(texts) == list(map(compiled.full_match, texts))


@pytest.mark.parametrize("pattern", [rb"a|b", rb"a.b", rb"(a)+", rb"[[:alpha:]]+", rb"^ab", rb".*"])
def test_other_patterns_are_not_simple(pattern: bytes) -> None:
    assert simple_matcher(pattern, compile_pattern(pattern)) is None


def test_a_tensor_may_mix_simple_and_other_texts() -> None:
    texts = np.array([["ab", "é ab"], ["ab\n", "b"]], object)
    texts = np.vectorize(str.encode, otypes=[object])(texts)
    found = regex_full_match(texts, np.array(b".*ab", object))
    assert found.tolist() == [[True, True], [False, False]]


@pytest.mark.parametrize("literal", [b"ab", b"b", b"aab-ba", b"longer than any of the texts"])
@pytest.mark.parametrize("count", [199, 200, 1000])
def test_many_texts_that_contain_a_literal_are_found(literal: bytes, count: int) -> None:
    random = np.random.default_rng(count)
    lengths = random.integers(0, 9, count)
    texts = [bytes(random.choice(list(b"ab-\0"), length).tolist()) for length in lengths]
    pattern = b".*" + literal + b".*"
    match = simple_matcher(pattern, compile_pattern(pattern))
    assert match is not None
    assert match(texts) == [literal in text for text in texts]


def test_many_empty_texts_contain_nothing() -> None:
    match = simple_matcher(b".*ab.*", compile_pattern(b".*ab.*"))
    assert match is not None
    assert match([b""] * 300) == [False] * 300
