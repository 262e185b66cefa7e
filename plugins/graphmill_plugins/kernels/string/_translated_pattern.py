"""Match RE2 patterns with Python's `re`, for systems without google-re2.

`re` backtracks. A pattern that may take exponential time is refused, and a text that is too long
for the pattern as well, so a match takes seconds at most.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from graphmill.errors import ResourceExhaustedError, UnimplementedError
from graphmill.spi import install_command
from graphmill_plugins.kernels._strings import decode, encode
from graphmill_plugins.kernels.string._re_translation import bound_of, compile_re2, for_ascii

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from graphmill_plugins.kernels.string._regex import Rewrite

_MAX_STEPS: Final = 2**30


class TranslatedPattern:
    """A pattern translated to Python's `re`.

    Attributes:
        groups: the number of capturing groups.
    """

    def __init__(self, pattern: str) -> None:
        """Translate a pattern.

        Raises:
            InvalidArgumentError: the pattern is invalid.
            UnimplementedError: Python's `re` cannot match it, or may take exponential time.
        """
        self._compiled = compile_re2(pattern)
        self._in_ascii = for_ascii(self._compiled)
        bound = bound_of(pattern)
        self._longest_to_match = _longest(lambda length: bound.steps(length, 1))
        self._longest_to_search = _longest(lambda length: bound.steps(length, length + 1))
        self._text = pattern
        self.groups: int = self._compiled.groups
        if not math.isfinite(bound.steps(1, 1)):
            raise UnimplementedError(
                f"regex {pattern!r} repeats a part that can match in several ways, which takes "
                f"exponential time with Python's re; {_advice()}"
            )

    def full_match(self, text: bytes) -> bool:
        """Return whether the whole text matches."""
        self._check_length(text, self._longest_to_match)
        if self._in_ascii is not None and text.isascii():  # the common case, without decoding
            return self._in_ascii.fullmatch(text) is not None
        return self._compiled.fullmatch(decode(text)) is not None

    def replace_first(self, text: bytes, rewrite: Rewrite) -> bytes:
        """Replace the first match by a valid rewrite."""
        self._check_length(text, self._longest_to_search)
        chars = decode(text)
        match = self._compiled.search(chars)
        if match is None:
            return text
        return b"".join(
            (
                encode(chars[: match.start()]),
                *_expanded(rewrite, match),
                encode(chars[match.end() :]),
            )
        )

    def replace_all(
        self, text: bytes, rewrite: Rewrite, progress: Callable[[int, int], None]
    ) -> bytes:
        """Replace all matches, except empty ones that directly follow another match."""
        self._check_length(text, self._longest_to_search)
        chars = decode(text)
        out: list[bytes] = []
        position, last_end = 0, -1
        for match in self._compiled.finditer(chars):
            if match.start() == match.end() == last_end:
                continue
            new = _expanded(rewrite, match)
            progress(match.end() - position, sum(map(len, new)))
            out.append(encode(chars[position : match.start()]))
            out += new
            position = last_end = match.end()
        out.append(encode(chars[position:]))
        return b"".join(out)

    def _check_length(self, text: bytes, longest: int) -> None:
        if len(text) > longest:
            raise ResourceExhaustedError(
                f"regex {self._text!r} on a text of {len(text)} bytes may take more than "
                f"{_MAX_STEPS} steps with Python's re, the limit is {longest} bytes; {_advice()}"
            )


def _longest(steps: Callable[[int], float]) -> int:
    """Return the length of the longest text that takes at most `_MAX_STEPS` steps."""
    return bisect_right(range(_MAX_STEPS), float(_MAX_STEPS), key=steps) - 1


def _expanded(rewrite: Rewrite, match: re.Match[str]) -> list[bytes]:
    """Return the parts of a rewrite for a match; a group that did not participate is empty."""
    return [
        part if isinstance(part, bytes) else encode(match[part] or "") for part in rewrite.parts
    ]


def _advice() -> str:
    return f"install google-re2 ({install_command('re2')}), which matches in linear time"
