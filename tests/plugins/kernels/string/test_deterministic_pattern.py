"""Patterns that need no backtracking match with Python's `re` as with RE2."""

from __future__ import annotations

import random

import numpy as np
import pytest

from graphmill_plugins.kernels.string._deterministic_pattern import (
    MAX_LENGTH,
    DeterministicPattern,
    deterministic_pattern,
    template,
)
from graphmill_plugins.kernels.string._regex import Rewrite, compile_pattern
from graphmill_plugins.kernels.string._simple_patterns import matched_characters
from graphmill_plugins.kernels.string.regex import regex_full_match, regex_replace

DETERMINISTIC = [
    *(rb"(\w+) (\w+)", rb"<[^>]+>|[,.]", rb"^\s+|\s+$", rb"a?b", rb"(?:a)(b*)-", rb"a+b?\.*c"),
    *(rb"(a(b+)) ", rb"[^\x00-\x7f]a?b", rb"\d+", rb"[ab]|a", rb".\n", rb"\\|\]b", rb"^a$"),
]
OTHERS = [
    *(rb"\w+\d", rb"a*", rb"a|b*", rb"(ab)+", rb"(a|b)", rb"a{2}", rb"a+?b", rb"\bab", rb"a*b?a"),
    *(rb"(?i)a", rb"[[:alpha:]]", rb"\pL", rb"(^a)", rb"a$b", rb"\x61", "é".encode(), rb"^", rb""),
]
CHARACTERS = "ab  -<>,.\n\\]1\0"


def _pattern(text: bytes) -> DeterministicPattern | None:
    return deterministic_pattern(
        text, lambda chars: frozenset(matched_characters(compile_pattern(chars)))
    )


def _texts(characters: str = CHARACTERS) -> list[str]:
    rng = random.Random(1)
    return ["".join(rng.choice(characters) for _ in range(n % 12)) for n in range(300)]


def _bytes() -> list[bytes]:
    return [text.encode() for text in _texts()]


def _no_limit(scanned: int, added: int) -> None:
    del scanned, added


@pytest.mark.parametrize("pattern", DETERMINISTIC)
def test_texts_match_and_are_replaced_as_with_the_pattern(pattern: bytes) -> None:
    compiled, deterministic = compile_pattern(pattern), _pattern(pattern)
    assert deterministic is not None
    found = deterministic.pattern
    for rewrite_text in (b"", b"xy", rb"[\0]\\", rb"\1-\1" if compiled.groups else b"-"):
        rewrite = Rewrite(rewrite_text)
        new = template(rewrite.parts)
        for text in _bytes():
            assert found.sub(new, text) == compiled.replace_all(text, rewrite, _no_limit)
            assert found.sub(new, text, 1) == compiled.replace_first(text, rewrite)
            assert (found.fullmatch(text) is not None) == compiled.full_match(text)


BEYOND_ASCII = [
    *(
        rb"[^\w\s]+",
        rb"(\W)a",
        rb"[^a]b?",
        rb".+\n",
        rb"(\S+) (\S*)\n",
        rb"[\W]+a",
        rb"[^\W]+",
        rb"[^\D]",
    ),
    *(rb"[a\D]+1?", rb"^[^ ]+|,", rb"<[^>]+>"),
]


@pytest.mark.parametrize("pattern", [*DETERMINISTIC, *BEYOND_ASCII])
def test_texts_that_are_not_ascii_match_and_are_replaced_as_with_the_pattern(
    pattern: bytes,
) -> None:
    compiled, deterministic = compile_pattern(pattern), _pattern(pattern)
    assert deterministic is not None
    found = deterministic.text_pattern
    if found is None:
        assert rb"\x" in pattern  # a class with some of these characters
        return
    for rewrite_text in (b"", "xé".encode(), rb"[\0]\\"):
        rewrite = Rewrite(rewrite_text)
        new = template(rewrite.parts).decode()
        for text in _texts("ab  -<>,.\n\\]1\0é\x80北\U00010000\U0010ffffáß"):
            data = text.encode()
            assert found.sub(new, text).encode() == compiled.replace_all(data, rewrite, _no_limit)
            assert found.sub(new, text, 1).encode() == compiled.replace_first(data, rewrite)
            assert (found.fullmatch(text) is not None) == compiled.full_match(data)


@pytest.mark.parametrize("pattern", [rb"\W+\S", rb"[^\x{e9}]+a", rb"[\pL]+ ", rb"\D?[^a]"])
def test_classes_that_share_or_divide_characters_beyond_ascii_have_no_pattern_of_texts(
    pattern: bytes,
) -> None:
    compile_pattern(pattern)  # it is valid
    found = _pattern(pattern)
    assert found is None or found.text_pattern is None


@pytest.mark.parametrize("replace_global", [True, False])
@pytest.mark.parametrize("pattern", [rb"(\w+) (\w+)", rb"[^\w\s]+", rb"[^\w\s]", b"ab", rb"[^a]+-"])
@pytest.mark.parametrize("rewrite", [rb"-\0\\", b"", b"x\0", "é".encode(), b"\xff"])
def test_batches_with_texts_that_are_not_ascii_are_replaced_as_with_the_pattern(
    pattern: bytes, rewrite: bytes, replace_global: bool
) -> None:
    compiled, parsed = compile_pattern(pattern), Rewrite(rewrite)
    texts = [text.encode() for text in _texts("ab -é北\0" if rewrite == b"x\0" else "ab -é北")]
    for more in ([], [b"\xffab -"], ["é ab-".encode() * MAX_LENGTH]):
        items = [*texts, *more]
        expected = [
            compiled.replace_all(item, parsed, _no_limit)
            if replace_global
            else compiled.replace_first(item, parsed)
            for item in items
        ]
        found = regex_replace(
            _strings(*items), np.array(pattern, object), np.array(rewrite, object), replace_global
        )
        assert found.tolist() == expected


@pytest.mark.parametrize("pattern", OTHERS)
def test_other_patterns_are_left_to_the_engine(pattern: bytes) -> None:
    compile_pattern(pattern)  # it is valid
    assert _pattern(pattern) is None


def _strings(*texts: bytes) -> np.ndarray:
    return np.array(texts, object)


@pytest.mark.parametrize("replace_global", [True, False])
def test_other_texts_are_replaced_as_ascii_ones(replace_global: bool) -> None:
    long = b"ab cd " * MAX_LENGTH
    texts = _strings(b"ab cd ef", "é ab cd".encode(), b"\xff ab cd", long)
    pattern, rewrite = np.array(rb"(\w+) (\w+)", object), np.array(rb"\2-\1", object)
    found = regex_replace(texts, pattern, rewrite, replace_global).tolist()
    ends = b"cd-ab " * MAX_LENGTH if replace_global else b"cd-ab " + long[6:]
    assert found == [b"cd-ab ef", "é cd-ab".encode(), b"\xff cd-ab", ends]


def test_other_texts_match_as_ascii_ones() -> None:
    texts = _strings(b"a", b"aa-", "aé-".encode(), b"a" * MAX_LENGTH + b"-")
    found = regex_full_match(texts, np.array(rb"a+[^a]?-", object))
    assert found.tolist() == [False, True, True, True]


def test_a_search_that_fails_at_each_character_of_a_long_text_ends() -> None:
    pytest.importorskip("re2")
    text = b"a" * (1 << 20)  # `re` would take hours
    pattern = np.array(rb"(a+)b", object)
    assert regex_replace(_strings(text), pattern, np.array(b"x", object), True).tolist() == [text]


@pytest.mark.parametrize(
    ("pattern", "separator"),
    [(rb"(\w+) ", b"\0"), (rb"[^>]", b""), (rb"^a", b""), (rb"b$|a", b""), (rb"a.", b"")],
)
def test_texts_are_joined_only_by_what_the_pattern_cannot_match(
    pattern: bytes, separator: bytes
) -> None:
    found = _pattern(pattern)
    assert found is not None
    assert found.separator == separator


@pytest.mark.parametrize("replace_global", [True, False])
@pytest.mark.parametrize("pattern", DETERMINISTIC)
@pytest.mark.parametrize("rewrite", [rb"-\0\\", b"", b"x\0", b"\0"])
def test_texts_are_replaced_together_as_one_by_one(
    pattern: bytes, rewrite: bytes, replace_global: bool
) -> None:
    without_zero = [text.replace(b"\0", b"") for text in _bytes()]
    for texts in (_bytes(), without_zero, [b""], []):
        inputs = (np.array(item, object) for item in (pattern, rewrite))
        found = regex_replace(_strings(*texts), *inputs, replace_global).tolist()
        engine, new = compile_pattern(pattern), Rewrite(rewrite)
        assert found == [
            engine.replace_all(text, new, _no_limit)
            if replace_global
            else engine.replace_first(text, new)
            for text in texts
        ]
