"""The pictures of the how-tos agree with the output of the tools."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from tests.unit.report.chromium import find_chromium

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "assets" / "pictures"


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "tools" / "make_pictures.py"))


@pytest.mark.jax
def test_drawings_of_terminals_are_up_to_date(tool: dict[str, Any]) -> None:
    for name, drawing in tool["drawings"]().items():
        assert (FOLDER / f"{name}.svg").read_text("utf-8") == drawing, "tools/make_pictures.py"


def test_every_picture_is_in_a_howto_with_a_description() -> None:
    texts = [page.read_text("utf-8") for page in (ROOT / "docs" / "howto").glob("*.md")]
    shown = {
        name
        for text in texts
        for name in re.findall(r"!\[[^\]]{20,}\]\(\.\./assets/pictures/([^)]+)\)", text)
    }
    assert shown == {path.name for path in FOLDER.iterdir()}


def test_lines_that_do_not_fit_are_cut_and_escaped(tool: dict[str, Any]) -> None:
    drawing = tool["draw"]("$ a <b> & c\n" + "x" * 500)
    assert "a &lt;b&gt; &amp; c" in drawing
    assert "x" * 112 + "</text>" in drawing


@pytest.mark.divided
@pytest.mark.jax
@pytest.mark.skipif(find_chromium() is None, reason="no Chromium is installed on this machine")
def test_pages_are_taken_as_pictures(tool: dict[str, Any], tmp_path: Path) -> None:
    written = tool["take_screenshots"](tmp_path)
    assert "report.png" in {path.name for path in written}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)
