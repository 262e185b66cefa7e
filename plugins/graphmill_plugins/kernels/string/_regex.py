r"""Regular expressions in RE2's syntax and with its rewrite strings, over bytes.

The engine is RE2 itself (google-re2), which matches in linear time. Where it is not installed, the
pattern is translated to Python's `re` (`_re_translation`), and patterns that may backtrack for long
are refused.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from graphmill_plugins.kernels._strings import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ESCAPE = re.compile(rb"\\(.?)", re.DOTALL)


class Rewrite:
    r"""A replacement text: `\0` to `\9` are groups, `\\` is a backslash.

    Attributes:
        parts: texts, and numbers of groups, up to the first escape that is invalid.
        constant: the parts if all are texts, else None.
        highest: the highest number of a group, after an invalid escape too.
        is_valid: whether all escapes are valid.
    """

    def __init__(self, text: bytes) -> None:
        escapes: list[bytes] = _ESCAPE.findall(text)
        self.highest = max((int(char) for char in escapes if char.isdigit()), default=0)
        self.is_valid = all(char == b"\\" or char.isdigit() for char in escapes)
        self.parts = list(_parts(text))
        texts = [part for part in self.parts if isinstance(part, bytes)]
        self.constant = texts if len(texts) == len(self.parts) else None


def _parts(text: bytes) -> Iterator[bytes | int]:
    position = 0
    for match in _ESCAPE.finditer(text):
        yield text[position : match.start()]
        position = match.end()
        if match[1].isdigit():
            yield int(match[1])
        elif match[1] == b"\\":
            yield b"\\"
        else:
            return
    yield text[position:]


class Pattern(Protocol):
    """A compiled pattern.

    Attributes:
        groups: the number of capturing groups.
    """

    groups: int

    def full_match(self, text: bytes) -> bool:
        """Return whether the whole text matches."""

    def replace_first(self, text: bytes, rewrite: Rewrite) -> bytes:
        """Replace the first match by a valid rewrite."""

    def replace_all(
        self, text: bytes, rewrite: Rewrite, progress: Callable[[int, int], None]
    ) -> bytes:
        """Replace all matches, except empty ones that directly follow another match.

        It calls `progress` for each match with the bytes that the search may have read, and those
        that were added; what that raises ends the replacement.
        """


@lru_cache(maxsize=128)
def compile_pattern(pattern: bytes) -> Pattern:
    """Compile a pattern.

    Raises:
        InvalidArgumentError: RE2 does not accept the pattern.
        UnimplementedError: RE2 is not installed, and Python's `re` cannot match the pattern, or
            not within a bounded time.
    """
    try:
        from graphmill_plugins.kernels.string._re2 import Re2Pattern
    except ImportError:  # google-re2 is not installed
        from graphmill_plugins.kernels.string._translated_pattern import TranslatedPattern

        return TranslatedPattern(decode(pattern))
    return Re2Pattern(pattern)
