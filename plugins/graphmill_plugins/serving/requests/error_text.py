"""Bound the texts of errors in responses."""

from __future__ import annotations

from typing import Final

_MAX_CHARACTERS: Final = 2000


def bounded_text(text: str) -> str:
    """Return a text, cut if it is long: a request can choose names that errors then quote."""
    if len(text) <= _MAX_CHARACTERS:
        return text
    return f"{text[:_MAX_CHARACTERS]}… ({len(text)} characters)"
