"""Show text of a model without the characters that control a terminal.

The names and strings of a model may hold escape sequences, which move the cursor, remove lines that
were printed before, or write to the clipboard, and newlines that look like further rows of a table.
"""

from __future__ import annotations

import re
from typing import Final

import click

_CONTROL: Final = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
)
"""Control characters except newline and tab, marks of text direction, and surrogates."""
_HIDDEN: Final = re.compile(f"[{_CONTROL}]")
_HIDDEN_IN_A_LINE: Final = re.compile(f"[\n\t{_CONTROL}]")


def visible(text: str) -> str:
    """Return text of several lines with control characters as escapes of Python."""
    return _HIDDEN.sub(_escape, text)


def one_line(text: str) -> str:
    """Return text with control characters, newlines and tabs as escapes."""
    return _HIDDEN_IN_A_LINE.sub(_escape, text)


def visible_json(text: str) -> str:
    """Return JSON with the control characters in its strings as escapes of JSON."""
    return _HIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def say(text: str, *, err: bool = False) -> None:
    """Print text on stdout or stderr with control characters as escapes."""
    click.echo(visible(text), err=err)


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
