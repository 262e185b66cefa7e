"""Results as JSON, as plain text and as tables."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import numpy as np

from graphmill.cli.output.formatting import Table, emit, show_array

if TYPE_CHECKING:
    import pytest

TABLE = Table(("name", "size"), [("a", 1), ("long name", 20)], title="things")


def test_json_is_valid_even_for_numbers_that_json_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    emit({"x": np.array([1.5, np.nan, -np.inf]), "y": b"\xff", "z": b"ok"}, [], as_json=True)
    assert json.loads(capsys.readouterr().out) == {
        "x": {"dtype": "float64", "shape": [3], "value": [1.5, "NaN", "-Infinity"]},
        "y": {"b64": "/w=="},
        "z": "ok",
    }


def test_piped_text_is_aligned_and_plain(capsys: pytest.CaptureFixture[str]) -> None:
    emit({}, ["head", TABLE], as_json=False)
    assert capsys.readouterr().out == (
        "head\n\nthings\nname       size\na             1\nlong name    20\n"
    )


def test_a_table_without_rows_is_its_heads(capsys: pytest.CaptureFixture[str]) -> None:
    emit({}, [Table(("name", "size"))], as_json=False)
    assert capsys.readouterr().out == "name  size\n"


def test_a_terminal_gets_a_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    emit({}, ["[head]", TABLE], as_json=False)
    shown = capsys.readouterr().out
    assert "[head]" in shown  # no markup is read out of data
    assert "─" in shown
    assert "long name" in shown


def test_arrays_are_shown_as_text() -> None:
    assert show_array(np.array([b"a", "ä".encode()], object)) == "['a' 'ä']"
    assert "..." in show_array(np.zeros(5000))
