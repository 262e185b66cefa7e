"""RE2 patterns translated to Python's `re`: the differences, and the maximum time of a match."""

from __future__ import annotations

import math

import pytest

from graphmill import errors
from graphmill_plugins.kernels._strings import decode
from graphmill_plugins.kernels.string._re_translation import bound_of, compile_re2, for_ascii


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("a$", "a\n", None),
        ("(?m)a$", "a\nb", "a"),
        (r"a\z", "ba", "a"),
        ("a.", "a\n", None),
        ("(?s)a.", "a\n", "a\n"),
        ("(?s:a.)", "a\n", "a\n"),
        (r"\Qa+b\E", "aa+b", "a+b"),
        (r"\pL+", "1éa2", "éa"),
        (r"[\p{Lu}x]+", "aÀxb", "Àx"),
        (r"\P{L}+", "a12b", "12"),
        ("[[:alpha:]]+", "1ab2", "ab"),
        ("[^[:alpha:]]+", "a12b", "12"),
        (r"\x{e9}|\x41", "é", "é"),
        (r"\101", "A", "A"),
        (r"\w+", "é1", "1"),
        (r"\D", "1é", "é"),
        ("a{,2}", "a{,2}", "a{,2}"),
        ("[]a]+", "a]b", "a]"),
        ("[a&&b]+", "&&", "&&"),
        ("x(?i)a", "xA", "xA"),
        ("(x(?i)a)b", "xAB", None),
        ("(?P<n>a)(?:b)", "ab", "ab"),
    ],
)
def test_translated_patterns_match_as_in_re2(pattern: str, text: str, found: str | None) -> None:
    match = compile_re2(pattern).search(text)
    assert (match[0] if match else None) == found


def test_a_dot_matches_no_byte_that_is_not_utf_8() -> None:
    text = decode(b"\xff\xe9")
    assert compile_re2(".").search(text) is None
    assert compile_re2("[^a]").search(text) is None


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(?=a)", r"invalid perl operator: \(\?="),
        (r"(a)\1", r"invalid escape sequence: \\1"),
        ("a**", r"bad repetition operator: \*\*"),
        ("a*+", "bad repetition operator"),
        ("*a", "no argument for repetition operator"),
        ("[a", "missing ]"),
        ("[[:nope:]]", "invalid character class range"),
        ("a{1001}", "invalid repetition size"),
        ("(", "missing"),
        ("a\\", "trailing"),
    ],
)
def test_regexes_refused_by_re2_are_refused(pattern: str, reason: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="Invalid pattern") as caught:
        compile_re2(pattern)
    assert caught.match(reason)


@pytest.mark.parametrize("pattern", [r"\C", "(?U)a", r"\p{Greek}"])
def test_missing_python_features_are_named(pattern: str) -> None:
    with pytest.raises(errors.UnimplementedError):
        compile_re2(pattern)


@pytest.mark.parametrize("pattern", ["[^a-z]+", ".", "(?s).", r"\w", "(?i)ab", r"\d+"])
def test_bytes_of_ascii_match_as_their_text_does(pattern: str) -> None:
    compiled = compile_re2(pattern)
    in_ascii = for_ascii(compiled)
    assert in_ascii is not None
    text = "Ab1 \n_z9-"
    assert [match.encode() for match in compiled.findall(text)] == in_ascii.findall(text.encode())


def test_non_ascii_patterns_use_text_matching() -> None:
    assert for_ascii(compile_re2(r"\pL")) is None
    assert for_ascii(compile_re2("é")) is None


@pytest.mark.parametrize(
    ("pattern", "steps"),
    [
        ("abc", 4),
        ("a*", 11 * 2),
        ("a*b+", 11 * 11 * 3),
        ("(a|b)c", 2 * 5),
        ("a?b{2,4}", 2 * 3 * 6),
        ("(a*){2}", 11 * 11 * 6),
        ("(?i)a*", 11 * 3),
        ("[*+(]|\\*", 2 * 4),
    ],
)
def test_bound_is_the_product_of_the_alternatives_of_parts(pattern: str, steps: float) -> None:
    assert steps <= bound_of(pattern).steps(10, 1) <= 2 * steps


@pytest.mark.parametrize("pattern", ["(a*)*", "(a|b)+", "((a?)b)*", "(?:a?b?){1000}"])
def test_ambiguous_repeats_have_no_bound(pattern: str) -> None:
    assert math.isinf(bound_of(pattern).steps(10, 1))
