r"""Match patterns with RE2 (google-re2), TensorFlow's own library.

The calls are those of its compiled module: the functions of the Python module around it take
three to ten times as long. Replacing follows `RE2::GlobalReplace` and `RE2::Rewrite` (re2/re2.cc),
which that module does not export.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from re2._re2 import RE2

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels._strings import decode

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill_plugins.kernels.string._regex import Rewrite

    _Spans: TypeAlias = list[tuple[int, int]]
    _Search: TypeAlias = Callable[[Any, bytes, int, int], _Spans]

_UNANCHORED: Final = RE2.Anchor.UNANCHORED
_ANCHOR_BOTH: Final = RE2.Anchor.ANCHOR_BOTH
# One character in UTF-8, as RE2 decodes it.
_CHARACTER: Final = re.compile(
    rb"[\x00-\x7f]|[\xc2-\xdf][\x80-\xbf]|(?:\xe0[\xa0-\xbf]|[\xe1-\xef][\x80-\xbf])[\x80-\xbf]"
    rb"|(?:\xf0[\x90-\xbf]|[\xf1-\xf3][\x80-\xbf]|\xf4[\x80-\x8f])[\x80-\xbf]{2}"
)


class Re2Pattern:
    """A pattern that RE2 has compiled.

    Attributes:
        groups: the number of capturing groups.
    """

    def __init__(self, pattern: bytes) -> None:
        """Compile a pattern.

        Raises:
            InvalidArgumentError: the pattern is invalid, or too large.
        """
        options = RE2.Options()
        options.log_errors = False
        compiled = RE2(pattern, options)
        if not compiled.ok():
            raise InvalidArgumentError(
                f"Invalid pattern: {decode(pattern)}, error: {decode(compiled.error())}"
            )
        self._pattern = pattern
        self._with_groups: _Search = compiled.Match
        self.groups: int = compiled.NumberOfCapturingGroups()

    @cached_property
    def _whole(self) -> _Search:
        """Match without the spans of groups, which is faster with RE2."""
        if not self.groups:
            return self._with_groups
        options = RE2.Options()
        options.log_errors = False
        options.never_capture = True
        match: _Search = RE2(self._pattern, options).Match
        return match

    def full_match(self, text: bytes) -> bool:
        """Return whether the whole text matches."""
        return self._whole(_ANCHOR_BOTH, text, 0, len(text))[0][0] == 0

    def replace_first(self, text: bytes, rewrite: Rewrite) -> bytes:
        """Replace the first match by a valid rewrite."""
        spans = self._search(rewrite)(_UNANCHORED, text, 0, len(text))
        start, end = spans[0]
        if start < 0:
            return text
        return b"".join((text[:start], *_expanded(rewrite, text, spans), text[end:]))

    def replace_all(
        self, text: bytes, rewrite: Rewrite, progress: Callable[[int, int], None]
    ) -> bytes:
        """Replace all matches, except empty ones that directly follow another match."""
        search, length = self._search(rewrite), len(text)
        new = rewrite.constant
        out: list[bytes] = []
        position, last_end = 0, -1
        while position <= length:
            spans = search(_UNANCHORED, text, position, length)
            start, end = spans[0]
            if start < 0:
                break
            out.append(text[position:start])
            if start == end == last_end:
                position = _end_of_character(text, start)
                out.append(text[start:position])
                progress(length - position, 0)
                continue
            added = new if new is not None else _expanded(rewrite, text, spans)
            out += added
            progress(length - position, sum(map(len, added)))  # it may have read all the rest
            position = last_end = end
        out.append(text[position:])
        return b"".join(out)

    def _search(self, rewrite: Rewrite) -> _Search:
        return self._with_groups if rewrite.highest else self._whole


def _expanded(rewrite: Rewrite, text: bytes, spans: _Spans) -> list[bytes]:
    """Return the parts of a rewrite for a match; a group that did not participate is empty."""
    return [
        part if isinstance(part, bytes) else text[slice(*spans[part])]  # (-1, -1) is empty
        for part in rewrite.parts
    ]


def _end_of_character(text: bytes, position: int) -> int:
    match = _CHARACTER.match(text, position)
    return position + 1 if match is None else match.end()
