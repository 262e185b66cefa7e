"""Regular-expression kernels: RegexFullMatch, RegexReplace and their static forms.

Semantics: tensorflow/core/kernels/regex_full_match_op.cc, regex_replace_op.cc.
"""

from __future__ import annotations

import sys
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from graphmill import errors
from graphmill.spi import kernel
from graphmill.spi.kernels import check_cancelled
from graphmill_plugins.kernels._strings import (
    apply_to_distinct,
    encode,
    map_distinct,
    string_array,
)
from graphmill_plugins.kernels._support import ask_for_memory
from graphmill_plugins.kernels.string._deterministic_pattern import (
    MAX_LENGTH,
    DeterministicPattern,
    deterministic_pattern,
    template,
)
from graphmill_plugins.kernels.string._regex import Rewrite, compile_pattern
from graphmill_plugins.kernels.string._simple_patterns import (
    matched_characters,
    simple_matcher,
    simple_replacer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from graphmill.spi import Value

    _Matcher: TypeAlias = Callable[[list[bytes]], Iterable[bool]]
    _Replace: TypeAlias = Callable[["_Progress", bytes], bytes]

_BYTES_BETWEEN_CHECKS: Final = 1 << 24
_SMALL_PRODUCT: Final = 1 << 20


def _scalar(name: str, value: Value) -> bytes:
    if value.ndim != 0:
        raise errors.InvalidArgumentError(
            f"{name} must be scalar, but received {list(value.shape)}"
        )
    item: bytes = value.item()
    return item


@lru_cache(maxsize=128)
def _matcher(text: bytes) -> _Matcher:
    """Return a function that checks which of some texts match a pattern as a whole."""
    pattern = compile_pattern(text)
    simple = simple_matcher(text, pattern)
    full_match: Callable[[bytes], bool] = pattern.full_match
    if simple is None:
        deterministic = deterministic_pattern(text, _matched)
        if deterministic is not None:
            full_match = _full_match(deterministic, full_match)

    def match(items: list[bytes]) -> Iterable[bool]:
        found = None if simple is None else simple(items)
        return map_distinct(full_match, items) if found is None else found

    return match


def _full_match(
    found: DeterministicPattern, other: Callable[[bytes], bool]
) -> Callable[[bytes], bool]:
    """Return a function that matches short texts with a pattern of `re`."""
    pattern, text_pattern = found.pattern, found.text_pattern

    def match(item: bytes) -> bool:
        if len(item) <= MAX_LENGTH:
            if item.isascii():
                return pattern.fullmatch(item) is not None
            text = None if text_pattern is None else _decoded(item)
            if text_pattern is not None and text is not None:
                return text_pattern.fullmatch(text) is not None
        return other(item)

    return match


def _matches(match: _Matcher, value: Value) -> Value:
    matches = match(value.ravel().tolist())
    return np.fromiter(matches, np.bool_, value.size).reshape(value.shape)


@kernel("StaticRegexFullMatch", make=True, host=True)
def static_regex_full_match(pattern: str) -> Callable[[Value], Value]:
    """Return whether each whole string matches."""
    return partial(_matches, _matcher(encode(pattern)))


@kernel("RegexFullMatch", host=True)
def regex_full_match(value: Value, pattern: Value) -> Value:
    """Return whether each whole string matches a pattern that is an input."""
    return _matches(_matcher(_scalar("Pattern", pattern)), value)


def _decoded(item: bytes) -> str | None:
    """Return the text that bytes are; None if they are not UTF-8."""
    try:
        return item.decode()
    except UnicodeDecodeError:
        return None


class _Progress:
    """Stops a replacement when its step is cancelled or its results exceed the memory budget."""

    def __init__(self) -> None:
        self._unchecked = 0
        self._size = 0

    def __call__(self, scanned: int, added: int) -> None:
        self._size += added
        self._unchecked += scanned + added
        if self._unchecked > _BYTES_BETWEEN_CHECKS:
            self._unchecked = 0
            check_cancelled()
            ask_for_memory(self._size, f"the replacements have {self._size} bytes")


class _TextReplacer(NamedTuple):
    """Replaces matches in short texts that need not be ASCII.

    Attributes:
        substitute: replaces those in a text.
        longest: the longest text for it, in bytes.
        separator: a byte between texts, if it may replace those in several joined by it.
    """

    substitute: Callable[[str], str]
    longest: int
    separator: bytes

    def replace(self, item: bytes) -> bytes | None:
        """Replace the matches in a text; None if it is long, or not UTF-8."""
        text = _decoded(item) if len(item) <= self.longest else None
        return None if text is None else self.substitute(text).encode()

    def replace_in_all(self, items: list[bytes]) -> Iterable[bytes] | None:
        """Replace the matches in texts at once; None if that is not possible."""
        if not self.separator or max(map(len, items), default=0) > self.longest:
            return None
        text = _decoded(self.separator.join(items))
        separator = self.separator.decode()
        if text is None or text.count(separator) != len(items) - 1:
            return None
        return map(str.encode, self.substitute(text).split(separator))


class _Replacer(NamedTuple):
    """Replaces matches in texts.

    Attributes:
        one: replaces those in one text.
        fast: replaces those in a short ASCII text; None if there is no faster way for such.
        longest: the longest text for `fast`, in bytes.
        added: how many bytes the replacement of a match has, without its groups.
        separator: a byte between texts, if `fast` may replace those in several joined by it.
        text: replaces those in a short text that is not ASCII; None if there is no faster way.
    """

    one: _Replace
    fast: Callable[[bytes], bytes] | None = None
    longest: int = 0
    added: int = 1
    separator: bytes = b""
    text: _TextReplacer | None = None

    def replace(self, progress: _Progress, item: bytes) -> bytes:
        """Replace the matches in a text."""
        new = None
        if item.isascii():
            new = self.fast(item) if self.fast and len(item) <= self.longest else None
        elif self.text is not None:
            new = self.text.replace(item)
        if new is None:
            return self.one(progress, item)
        progress(0, len(new))
        return new

    def replace_in_all(self, items: list[bytes]) -> Iterable[bytes]:
        """Replace the matches in texts; if all are short ASCII texts, without Python for each."""
        fast, everything = self.fast, b"".join(items)
        is_small = len(everything) * (1 + self.added) <= _BYTES_BETWEEN_CHECKS
        if is_small and self.text is not None and not everything.isascii():
            replaced = self.text.replace_in_all(items)
            if replaced is not None:
                return replaced
        if fast is None or not is_small or not everything.isascii():
            return map(partial(self.replace, _Progress()), items)
        if max(map(len, items), default=0) > self.longest:
            return map(partial(self.replace, _Progress()), items)
        if self.separator and items and self.separator not in everything:
            return fast(self.separator.join(items)).split(self.separator)
        return map(fast, items)


@lru_cache(maxsize=128)
def _replacer(text: bytes, rewrite_text: bytes, replace_global: bool) -> _Replacer:
    pattern, rewrite = compile_pattern(text), Rewrite(rewrite_text)
    if rewrite.highest > pattern.groups or not (rewrite.is_valid or replace_global):
        return _Replacer(lambda _, item: item)

    def replace_all(progress: _Progress, item: bytes) -> bytes:
        return pattern.replace_all(item, rewrite, progress)

    def replace_first(progress: _Progress, item: bytes) -> bytes:
        new = pattern.replace_first(item, rewrite)
        progress(len(item), len(new))
        return new

    replace = replace_all if replace_global else replace_first
    added = len(rewrite_text)
    limit = _SMALL_PRODUCT // max(added, 1)
    found = deterministic_pattern(text, _matched)
    # The replacement itself must not have the separator, nor may only the first of all be replaced.
    separator = found.separator if found and replace_global else b""
    separator = separator if separator not in rewrite_text else b""
    count = 0 if replace_global else 1
    short, in_text = min(MAX_LENGTH, limit), None
    if found is not None and found.text_pattern is not None and _decoded(rewrite_text) is not None:
        substitute = partial(found.text_pattern.sub, template(rewrite.parts).decode(), count=count)
        in_text = _TextReplacer(substitute, short, separator)
    if replace_global and b"\\" not in rewrite_text:
        simple = simple_replacer(text, pattern, rewrite_text)
        if simple is not None:
            longest = limit if added > 1 else sys.maxsize
            return _Replacer(replace, simple, longest, added, text=in_text)
    if found is None:
        return _Replacer(replace)
    fast = partial(found.pattern.sub, template(rewrite.parts), count=count)
    return _Replacer(replace, fast, short, added, separator, in_text)


def _matched(characters: bytes) -> frozenset[int]:
    return frozenset(matched_characters(compile_pattern(characters)))


def _replaced(value: Value, replacer: _Replacer) -> Value:
    new = apply_to_distinct(replacer.replace_in_all, value.ravel().tolist())
    return string_array(list(new), value.shape)


@kernel("StaticRegexReplace", make=True, host=True)
def static_regex_replace(
    pattern: str, rewrite: str, replace_global: bool
) -> Callable[[Value], Value]:
    """Replace all matches, or only the first."""
    replacer = _replacer(encode(pattern), encode(rewrite), replace_global)
    return lambda value: _replaced(value, replacer)


@kernel("RegexReplace", host=True)
def regex_replace(value: Value, pattern: Value, rewrite: Value, replace_global: bool) -> Value:
    """Replace all matches, or only the first; pattern and replacement are inputs."""
    replacer = _replacer(_scalar("Pattern", pattern), _scalar("Rewrite", rewrite), replace_global)
    return _replaced(value, replacer)
