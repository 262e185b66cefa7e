"""Regular-expression kernels: RegexFullMatch, RegexReplace and their static forms.

Semantics: tensorflow/core/kernels/regex_full_match_op.cc, regex_replace_op.cc.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphmill import errors
from graphmill.spi import kernel
from graphmill_plugins.kernels._strings import decode, encode, map_distinct, string_array
from graphmill_plugins.kernels.string._re2 import compile_re2, for_ascii

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Value

_Replace: TypeAlias = "Callable[[bytes], bytes]"


def _scalar_text(name: str, value: Value) -> str:
    if value.ndim != 0:
        raise errors.InvalidArgumentError(
            f"{name} must be scalar, but received {list(value.shape)}"
        )
    return decode(value.item())


def _matcher(pattern: re.Pattern[str]) -> Callable[[Value], Value]:
    in_ascii = for_ascii(pattern)

    def matches(item: bytes) -> bool:
        if in_ascii is not None and item.isascii():  # the common case, without decoding
            return in_ascii.fullmatch(item) is not None
        return pattern.fullmatch(decode(item)) is not None

    def match(value: Value) -> Value:
        found = map_distinct(matches, value.ravel().tolist())
        return np.fromiter(found, np.bool_, value.size).reshape(value.shape)

    return match


@kernel("StaticRegexFullMatch", make=True, host=True)
def static_regex_full_match(pattern: str) -> Callable[[Value], Value]:
    """Return whether each whole string matches."""
    return _matcher(compile_re2(pattern))


@kernel("RegexFullMatch", host=True)
def regex_full_match(value: Value, pattern: Value) -> Value:
    """Return whether each whole string matches a pattern that is an input."""
    return _matcher(compile_re2(_scalar_text("Pattern", pattern)))(value)


class _Rewrite:
    r"""A replacement text: `\0` to `\9` are groups, `\\` is a backslash.

    The rest after any other escape is dropped, as in RE2, which also logs an error.
    """

    def __init__(self, text: str) -> None:
        self.parts: list[str | int] = []
        self.is_valid = True
        rest = text
        while rest:
            plain, slash, rest = rest.partition("\\")
            self.parts.append(plain)
            if not slash:
                break
            if rest[:1] == "\\":
                self.parts.append("\\")
            elif rest[:1].isascii() and rest[:1].isdigit():
                self.parts.append(int(rest[0]))
            else:
                self.is_valid = False
                break
            rest = rest[1:]
        self.highest = max((part for part in self.parts if isinstance(part, int)), default=0)

    def expand(self, match: re.Match[str]) -> str:
        """Return the text for a match; a group that did not participate is empty."""
        return "".join(
            part if isinstance(part, str) else (match[part] or "") for part in self.parts
        )


def _replace_all(text: str, pattern: re.Pattern[str], rewrite: _Rewrite) -> str:
    """Replace all matches, except empty ones that directly follow another match."""
    out: list[str] = []
    position = 0
    last_end = -1
    for match in pattern.finditer(text):
        if match.start() == match.end() == last_end:
            continue
        out.append(text[position : match.start()])
        out.append(rewrite.expand(match))
        position = last_end = match.end()
    out.append(text[position:])
    return "".join(out)


# Simple patterns that never match the empty string: a character class or literal words.
_CLASS = re.compile(r"(?:\[(?:[^\]\\]|\\\w)+\]|\\[dDsSwW])(?P<repeat>\+?)")
_WORDS = re.compile(r"[\w ]+", re.ASCII)
_ASCII = [bytes([code]) for code in range(128)]


def _simple_replacer(text: str, pattern: re.Pattern[str], rewrite: str) -> _Replace | None:
    """Return a function that replaces all matches of a simple pattern; None if it is not simple."""
    if _WORDS.fullmatch(text):
        old, new = encode(text), encode(rewrite)
        return lambda item: item.replace(old, new)
    char_class = _CLASS.fullmatch(text)
    if char_class is None:
        return None
    substitute, in_ascii = pattern.sub, for_ascii(pattern)
    if in_ascii is None:
        return lambda item: encode(substitute(rewrite, decode(item)))
    replace_ascii = _ascii_replacer(
        in_ascii, encode(rewrite), is_repeated=bool(char_class["repeat"])
    )

    def replace(item: bytes) -> bytes:  # the common case, ASCII, is not decoded
        return replace_ascii(item) if item.isascii() else encode(substitute(rewrite, decode(item)))

    return replace


def _ascii_replacer(pattern: re.Pattern[bytes], new: bytes, *, is_repeated: bool) -> _Replace:
    """Return a function that replaces the bytes of a class in ASCII text."""
    matched = b"".join(filter(pattern.fullmatch, _ASCII))
    if not new:
        return lambda item: item.translate(None, matched)
    if len(new) == 1 and not is_repeated:
        table = bytes.maketrans(matched, new * len(matched))
        return lambda item: item.translate(table)
    return partial(pattern.sub, new)


def _replacer(pattern: str, rewrite: str, replace_global: bool) -> _Replace:
    compiled = compile_re2(pattern)
    new = _Rewrite(rewrite)
    if replace_global and "\\" not in rewrite:
        plain = _simple_replacer(pattern, compiled, rewrite)
        if plain is not None:
            return plain
    if new.highest > compiled.groups or not (new.is_valid or replace_global):
        return lambda item: item

    def replace_one(item: bytes) -> bytes:
        text = decode(item)
        if replace_global:
            return encode(_replace_all(text, compiled, new))
        match = compiled.search(text)
        if match is None:
            return item
        return encode(text[: match.start()] + new.expand(match) + text[match.end() :])

    return replace_one


def _replaced(value: Value, replace: _Replace) -> Value:
    return string_array(list(map_distinct(replace, value.ravel().tolist())), value.shape)


@kernel("StaticRegexReplace", make=True, host=True)
def static_regex_replace(
    pattern: str, rewrite: str, replace_global: bool
) -> Callable[[Value], Value]:
    """Replace all matches, or only the first."""
    replace = _replacer(pattern, rewrite, replace_global)
    return lambda value: _replaced(value, replace)


@kernel("RegexReplace", host=True)
def regex_replace(value: Value, pattern: Value, rewrite: Value, replace_global: bool) -> Value:
    """Replace all matches, or only the first; pattern and replacement are inputs."""
    replace = _replacer(
        _scalar_text("Pattern", pattern), _scalar_text("Rewrite", rewrite), replace_global
    )
    return _replaced(value, replace)
