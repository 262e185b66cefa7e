"""Regular-expression kernels: RegexFullMatch, RegexReplace and their static forms.

Semantics: tensorflow/core/kernels/regex_full_match_op.cc, regex_replace_op.cc.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from graphmill import errors
from graphmill.spi import kernel
from graphmill.spi.kernels import check_cancelled
from graphmill_plugins.kernels._strings import encode, map_distinct, string_array
from graphmill_plugins.kernels._support import ask_for_memory
from graphmill_plugins.kernels.string._regex import Rewrite, compile_pattern
from graphmill_plugins.kernels.string._simple_patterns import simple_matcher, simple_replacer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from graphmill.spi import Value

    _Matcher: TypeAlias = Callable[[list[bytes]], Iterable[bool]]
    _Replacer: TypeAlias = Callable[["_Progress", bytes], bytes]

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

    def match(items: list[bytes]) -> Iterable[bool]:
        found = None if simple is None else simple(items)
        return map_distinct(pattern.full_match, items) if found is None else found

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


def _replacer(text: bytes, rewrite_text: bytes, replace_global: bool) -> _Replacer:
    pattern, rewrite = compile_pattern(text), Rewrite(rewrite_text)
    if rewrite.highest > pattern.groups or not (rewrite.is_valid or replace_global):
        return lambda _, item: item
    if not replace_global:

        def replace_first(progress: _Progress, item: bytes) -> bytes:
            new = pattern.replace_first(item, rewrite)
            progress(len(item), len(new))
            return new

        return replace_first
    simple = None
    if b"\\" not in rewrite_text:
        simple = simple_replacer(text, pattern, rewrite_text)
    if simple is None:
        return lambda progress, item: pattern.replace_all(item, rewrite, progress)

    def replace(progress: _Progress, item: bytes) -> bytes:
        if item.isascii() and len(item) * len(rewrite_text) <= _SMALL_PRODUCT:
            new = simple(item)
            progress(0, len(new))
            return new
        return pattern.replace_all(item, rewrite, progress)

    def shorten(progress: _Progress, item: bytes) -> bytes:
        if item.isascii():
            return simple(item)
        return pattern.replace_all(item, rewrite, progress)

    return shorten if len(rewrite_text) <= 1 else replace


def _replaced(value: Value, replace: _Replacer) -> Value:
    replace_one = partial(replace, _Progress())
    return string_array(list(map_distinct(replace_one, value.ravel().tolist())), value.shape)


@kernel("StaticRegexReplace", make=True, host=True)
def static_regex_replace(
    pattern: str, rewrite: str, replace_global: bool
) -> Callable[[Value], Value]:
    """Replace all matches, or only the first."""
    replace = _replacer(encode(pattern), encode(rewrite), replace_global)
    return lambda value: _replaced(value, replace)


@kernel("RegexReplace", host=True)
def regex_replace(value: Value, pattern: Value, rewrite: Value, replace_global: bool) -> Value:
    """Replace all matches, or only the first; pattern and replacement are inputs."""
    replace = _replacer(_scalar("Pattern", pattern), _scalar("Rewrite", rewrite), replace_global)
    return _replaced(value, replace)
