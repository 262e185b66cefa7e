r"""Translate patterns that never need to backtrack to Python's `re`, which then matches faster.

Such a pattern is a list of alternatives; each is a sequence of characters and classes, which may be
repeated and be in groups. No repeated class shares a character with what may follow it. Then the
longest repetition is the only one that can lead to a match, so quantifiers may be possessive: a
match reads each character once, and is RE2's.

`(\w+)@(\w+)`, `<[^>]+>` and `^\s+|\s+$` are such patterns; `\w+\d` and `(?:ab)*` are not. RE2's
Python module takes a call for each match; `re` replaces all of them in one.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Matched = Callable[[bytes], frozenset[int]]
    """Returns the ASCII characters that a class, an escape or a dot matches."""

MAX_LENGTH: Final = 1024
"""Bytes of a text up to which `re` is used: a search that fails may read the rest of a text from
each of its characters, where RE2 reads the text once."""

_SEPARATOR: Final = b"\0"
_NOTHING: Final = rb"[^\x00-\xff]"
_NO_TEXT: Final = rb"[^\x00-\U0010ffff]"
"""A class that matches no byte, and one that matches no character."""
_OTHERS: Final = 0x80
"""Stands for all characters that are not ASCII."""
_ESCAPES: Final = re.compile(rb"\\(.)", re.DOTALL)
_UNDERSTOOD: Final = frozenset(b"dDsSwWafnrtv")
_TOKEN: Final = re.compile(
    rb"(?P<open>\((?:\?:)?)|(?P<close>\))|(?P<bar>\|)|(?P<start>\^)|(?P<end>\$)"
    rb"|(?:(?P<class>\[\^?(?:[^\]\\\[]|\\[^\n])+\]|\\[dDsSwWafnrtv]|\.)"
    rb"|(?P<literal>[^\\\[\](){}*+?^$|.]|\\[^0-9A-Za-z]))(?P<repeat>[*+?]?)",
    re.DOTALL,
)


class _Item(NamedTuple):
    """A character or class with its repetition, or something that matches no character.

    Attributes:
        text: its translation, without the repetition.
        characters: what it matches; None for a parenthesis or an anchor.
        repeat: `*`, `+`, `?` or nothing.
        others: whether it matches the characters that are not ASCII; None if it matches some.
    """

    text: bytes
    characters: frozenset[int] | None
    repeat: bytes = b""
    others: bool | None = False

    @property
    def may_be_empty(self) -> bool:
        return self.characters is None or self.repeat in (b"*", b"?")

    def translated(self) -> bytes:
        return self.text + self.repeat + (b"+" if self.repeat else b"")

    def with_others(self) -> _Item:
        """Return the item for texts that are not ASCII."""
        if self.characters is None or not self.others:
            return self
        chosen = re.escape(bytes(sorted(self.characters)))
        ends = chr(_OTHERS), chr(sys.maxunicode)
        text = b"[" + chosen + "-".join(ends).encode() + b"]"
        return self._replace(text=text, characters=self.characters | {_OTHERS})


class DeterministicPattern(NamedTuple):
    """A pattern that needs no backtracking.

    Attributes:
        pattern: its translation.
        separator: a byte that it never matches, so that it finds the same in texts joined by it;
            empty if there is none.
        text_pattern: its translation for texts that are not ASCII; None if matching them may need
            to backtrack, or if a class has some of their characters.
    """

    pattern: re.Pattern[bytes]
    separator: bytes
    text_pattern: re.Pattern[str] | None


def deterministic_pattern(text: bytes, matched: Matched) -> DeterministicPattern | None:
    """Return a pattern that finds what RE2 finds in ASCII texts of up to `MAX_LENGTH` bytes.

    Args:
        text: a valid pattern of RE2.
        matched: returns the characters that a class matches.

    Returns:
        None if matching may need to backtrack, if the pattern may match an empty text, or if it
        has parts that are not understood here.
    """
    if not text.isascii():
        return None
    alternatives: list[list[_Item]] = [[]]
    depth = 0
    for token in _tokens(text):
        if token is None:
            return None
        kind = token.lastgroup if token["repeat"] is None else "item"
        sequence = alternatives[-1]
        depth += (kind == "open") - (kind == "close")
        if kind == "bar":
            if depth:
                return None
            alternatives.append([])
        elif kind == "start":
            if sequence:
                return None
            sequence.append(_Item(rb"\A", None))
        elif kind == "end":
            if depth or not _ends_alternative(text, token.end()):
                return None
            sequence.append(_Item(rb"\Z", None))
        elif kind == "item":
            sequence.append(_item(token, matched))
        else:
            sequence.append(_Item(token[0], None))
    if not all(map(_is_deterministic, alternatives)):
        return None
    is_anchored = any(item.text in (rb"\A", rb"\Z") for items in alternatives for item in items)
    separator = b"" if is_anchored or _matches(alternatives, _SEPARATOR) else _SEPARATOR
    pattern = re.compile(_translated(alternatives))
    return DeterministicPattern(pattern, separator, _text_pattern(alternatives))


def _translated(alternatives: list[list[_Item]]) -> bytes:
    return b"|".join(b"".join(map(_Item.translated, items)) for items in alternatives)


def _text_pattern(alternatives: list[list[_Item]]) -> re.Pattern[str] | None:
    if any(item.others is None for items in alternatives for item in items):
        return None
    extended = [list(map(_Item.with_others, items)) for items in alternatives]
    if not all(map(_is_deterministic, extended)):
        return None
    return re.compile(_translated(extended).replace(_NOTHING, _NO_TEXT).decode())


def template(parts: list[bytes | int]) -> bytes:
    """Return the template of `re` for a rewrite of texts and numbers of groups."""
    return b"".join(
        part.replace(b"\\", rb"\\") if isinstance(part, bytes) else rb"\g<%d>" % part
        for part in parts
    )


def _tokens(text: bytes) -> Iterator[re.Match[bytes] | None]:
    """Yield the parts of a pattern, and None for one that is not understood."""
    position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            yield None
            return
        position = token.end()
        # A second quantifier changes the meaning of the first; one after a group repeats it.
        if text[position : position + 1] in (b"*", b"+", b"?", b"{"):
            yield None
            return
        yield token


def _ends_alternative(text: bytes, position: int) -> bool:
    return text[position : position + 1] in (b"", b"|")


def _item(token: re.Match[bytes], matched: Matched) -> _Item:
    literal = token["literal"]
    characters = frozenset(literal[-1:]) if literal else matched(token["class"])
    chosen = b"".join(re.escape(bytes([code])) for code in sorted(characters))
    translation = b"[" + chosen + b"]" if chosen else _NOTHING
    others = False if literal else _matches_others(token["class"])
    return _Item(translation, characters, token["repeat"], others)


def _matches_others(text: bytes) -> bool | None:
    r"""Return whether a class, an escape or a dot matches the characters that are not ASCII.

    `\d`, `\s` and `\w` are ASCII. Returns None for a class that may match some of them.
    """
    if text == b".":
        return True
    escapes: list[bytes] = _ESCAPES.findall(text)
    if any(escape.isalnum() and escape[0] not in _UNDERSTOOD for escape in escapes):
        return None
    return any(escape in (b"D", b"S", b"W") for escape in escapes) != text.startswith(b"[^")


def _matches(alternatives: list[list[_Item]], character: bytes) -> bool:
    """Return whether any part matches a character."""
    return any(
        item.characters is not None and character[0] in item.characters
        for items in alternatives
        for item in items
    )


def _is_deterministic(items: list[_Item]) -> bool:
    """Return whether no repeated part shares a character with what may follow it."""
    following: frozenset[int] = frozenset()
    may_be_empty = True
    for item in reversed(items):
        if item.characters is None:
            continue
        if item.repeat and item.characters & following:
            return False
        following = item.characters | (following if item.may_be_empty else frozenset())
        may_be_empty = may_be_empty and item.may_be_empty
    return not may_be_empty
