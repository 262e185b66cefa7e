"""Control characters of texts are shown as escapes."""

from __future__ import annotations

import json

import pytest

from graphmill.cli.output.visible_text import one_line, say, visible, visible_json


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2Ka", "\\x1b[2Ka"),
        ("a\x07\x00\x7f\x9b", "a\\x07\\x00\\x7f\\x9b"),
        ("a\rb", "a\\rb"),
        ("\u202eabc\u2066", "\\u202eabc\\u2066"),
        ("\ud800", "\\ud800"),
        ("line\n\tnext", "line\n\tnext"),
        ("größe 寸法 …", "größe 寸法 …"),
    ],
)
def test_control_characters_are_escapes(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_one_line_has_no_newline() -> None:
    assert one_line("a\n\tb\x1b") == "a\\n\\tb\\x1b"


def test_json_keeps_its_meaning() -> None:
    data = {"a\x9b": "\u202e\x1b\n\ud800"}
    text = visible_json(json.dumps(data, ensure_ascii=False, indent=1))
    assert json.loads(text) == data
    assert text.isascii()


def test_text_is_printed_on_the_chosen_stream(capsys: pytest.CaptureFixture[str]) -> None:
    say("a\x1b")
    say("b\x1b", err=True)
    assert capsys.readouterr() == ("a\\x1b\n", "b\\x1b\n")
