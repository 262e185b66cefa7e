"""Each paragraph of a changelog fragment begins with the kind of change that it describes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "changelog"
FRAGMENTS = sorted(set(FOLDER.glob("*.md")) - {FOLDER / "index.md"})
PARAGRAPH = re.compile(r"\n\s*\n(?!- )")
TAG = re.compile(r"\*(Added|Changed|Deprecated|Faster|Fixed|Removed)\*[:, ]")


def untagged(text: str) -> list[str]:
    """Return the beginnings of paragraphs without a tag; a list belongs to what is before it."""
    return [part[:60] for part in PARAGRAPH.split(text.strip()) if not TAG.match(part)]


@pytest.mark.parametrize("fragment", FRAGMENTS, ids=lambda path: path.stem)
def test_paragraphs_begin_with_the_kind_of_change(fragment: Path) -> None:
    assert untagged(fragment.read_text("utf-8")) == []


def test_a_paragraph_without_a_kind_is_found() -> None:
    assert untagged("*Fixed*: a\n\n- b\n\n*New* c\n\n*Added* to d: e") == ["*New* c"]
