"""Each note is shown once."""

from __future__ import annotations

from graphmill.inputs.notes import each_once


def test_a_repeated_note_is_shown_once() -> None:
    shown: list[str] = []
    show = each_once(shown.append)
    for note in ("a", "b", "a", "b", "c"):
        show(note)
    assert shown == ["a", "b", "c"]
