"""Regular expressions: with RE2, and with Python's `re` where RE2 is not installed."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill import errors
from graphmill.memory_budget import with_memory_limit
from graphmill.runtime.steps.step_runner import running
from graphmill_plugins.kernels._strings import string_array
from graphmill_plugins.kernels.string import _regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ENGINE = "graphmill_plugins.kernels.string._re2"


@pytest.fixture(params=["re2", "re"], autouse=True)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Match with each engine in turn."""
    if request.param == "re2":
        pytest.importorskip("re2")
    else:
        monkeypatch.setitem(sys.modules, ENGINE, None)
    _regex.compile_pattern.cache_clear()
    yield request.param
    _regex.compile_pattern.cache_clear()


def replace(
    bind_kernel: Callable[..., Any], text: bytes, pattern: str, rewrite: str, **attrs: Any
) -> bytes:
    value = string_array([text])
    bound = bind_kernel("StaticRegexReplace", value, pattern=pattern, rewrite=rewrite, **attrs)
    out: bytes = bound.compute(value)[0]
    return out


@pytest.mark.parametrize("suffix", ["", r"|\x{e9}\x{e9}"], ids=["simple", "general"])
@pytest.mark.parametrize(
    ("text", "pattern", "rewrite", "expected"),
    [
        ("baaac", "a*", "x", "xbxcx"),
        ("hello", "(l)(o)?", r"<\1\2>", "he<l><lo>"),
        ("abc", "b", r"\0\0", "abbc"),
        ("abc", "b", r"\\", "a\\c"),
        ("abc", "b", r"\3", "abc"),
        ("abc", "b", r"x\z\9", "abc"),
        ("abc", "b", r"x\zy", "axc"),
        ("abc", "", "-", "-a-b-c-"),
        ("a<br />b<br />", "<br />", " ", "a b "),
        ("a, b!", "[,!]", "", "a b"),
        ("a  b\tc", r"\s+", "__", "a__b__c"),
        ("a1b22", r"\d", "#", "a#b##"),
        ("a-]^b", r"[\-\]^]", "\\\\", "a\\\\\\b"),
        ("\u00e9a", "", "-", "-\u00e9-a-"),
    ],
)
def test_replacements_follow_re2(
    bind_kernel: Callable[..., Any],
    text: str,
    pattern: str,
    rewrite: str,
    expected: str,
    suffix: str,
) -> None:
    found = replace(bind_kernel, text.encode(), pattern + suffix, rewrite)
    assert found.decode() == expected


def test_first_match_alone_is_replaced(bind_kernel: Callable[..., Any]) -> None:
    assert replace(bind_kernel, b"aXbX", "X", r"\0!", replace_global=False) == b"aX!bX"
    assert replace(bind_kernel, b"aXbX", "X", r"-\z", replace_global=False) == b"aXbX"
    assert replace(bind_kernel, b"aXbX", "y", "-", replace_global=False) == b"aXbX"


def test_empty_matches_step_over_bytes_that_are_not_utf_8(bind_kernel: Callable[..., Any]) -> None:
    assert replace(bind_kernel, b"\xffb", "", "-") == b"-\xff-b-"


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("a$", b"a\n", False),
        (r"\w+@\w+", b"a@b", True),
        (r"\w+@\w+", b"a@b ", False),
        (r"\pL+", "\u00e9a".encode(), True),
        (r"[^a]", b"\xff", False),
        (".", b"\xff", False),
        ("(a|b)c", b"bc", True),
        ("", b"", True),
    ],
)
def test_full_matches_follow_re2(
    call: Callable[..., Any], pattern: str, text: bytes, found: bool
) -> None:
    assert call("StaticRegexFullMatch", string_array([text]), pattern=pattern).tolist() == [found]


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(?=a)", r"invalid perl operator: \(\?="),
        (r"(a)\1", r"invalid escape sequence: \\1"),
        ("a**", r"bad repetition operator: \*\*"),
        ("[a", "missing ]"),
        ("a{1001}", "invalid repetition size"),
        ("(", "missing"),
        ("a\\", "trailing"),
    ],
)
def test_invalid_patterns_are_named(pattern: str, reason: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="Invalid pattern") as caught:
        _regex.compile_pattern(pattern.encode())
    assert caught.match(reason)


def test_features_that_only_re2_has(engine: str) -> None:
    if engine == "re2":
        assert _regex.compile_pattern(rb"\C\p{Greek}").full_match("x\u03b1".encode())
    else:
        with pytest.raises(errors.UnimplementedError):
            _regex.compile_pattern(rb"\p{Greek}")


@pytest.mark.parametrize("pattern", [b"(a*)*b", b"(a|aa)+b", b"(?:a?){30}a{30}b", b"(x+x+)+y"])
def test_exponential_patterns_end(engine: str, pattern: bytes) -> None:
    text = b"a" * 5000
    if engine == "re2":
        assert not _regex.compile_pattern(pattern).full_match(text)
        return
    with pytest.raises((errors.UnimplementedError, errors.ResourceExhaustedError)) as caught:
        _regex.compile_pattern(pattern).full_match(text)
    assert "[re2]'" in str(caught.value)


def test_long_texts_end_or_are_refused(engine: str) -> None:
    pattern = _regex.compile_pattern(b"a*a*a*a*b")
    assert not pattern.full_match(b"a" * 20)
    if engine == "re":
        with pytest.raises(errors.ResourceExhaustedError, match=r"the limit is \d+ bytes"):
            pattern.full_match(b"a" * 10_000)
    else:
        assert not pattern.full_match(b"a" * 10_000)


def test_replacement_ends_when_the_step_is_cancelled(
    bind_kernel: Callable[..., Any], engine: str
) -> None:
    with running(SimpleNamespace(is_cancelled=True)), pytest.raises(errors.CancelledError):
        replace(bind_kernel, b"ab" * 9_000, "[a]|x{2}", r"\0\0" * 1000)


def test_results_are_requested_from_the_memory_budget(bind_kernel: Callable[..., Any]) -> None:
    for pattern in ("a", "a|b{2}"):
        limited = with_memory_limit(1 << 24, replace)
        with pytest.raises(errors.ResourceExhaustedError, match="the limit is 16777216"):
            limited(bind_kernel, b"a" * 9_000, pattern, "x" * 10_000)


def test_the_pattern_must_be_a_scalar(call: Callable[..., Any]) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="must be scalar"):
        call("RegexFullMatch", string_array([b"a"]), string_array([b"a"]))


def test_a_scalar_stays_a_scalar(call: Callable[..., Any], bind_kernel: Callable[..., Any]) -> None:
    value = np.array(b"ab", object)
    assert call("StaticRegexFullMatch", value, pattern="ab").shape == ()
    bound = bind_kernel("StaticRegexReplace", value, pattern="b", rewrite="c")
    assert bound.compute(value).item() == b"ac"
