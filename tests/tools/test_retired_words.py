"""Words that were replaced by the field's terms do not come back (`tools/retired_words.txt`)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIST = ROOT / "tools" / "retired_words.txt"
FOLDERS = (
    *("core", "plugins", "contrib_devices", "contrib_executors", "tests", "tools"),
    *("docs", "examples"),
)
SUFFIXES = {".py", ".pyi", ".md", ".toml", ".txt", ".yml", ".ini"}
MAY_KEEP = {
    "core/graphmill/deprecations.py",
    "docs/changelog/spi.md",
    "tools/retired_words.txt",
    "tests/tools/test_retired_words.py",
}
"""The table of old public names and its note in the changelog, the list itself, and its test."""


def retired() -> dict[str, str]:
    lines = LIST.read_text("utf-8").splitlines()
    pairs = [line.split(" | ") for line in lines if line and not line.startswith("#")]
    return {word.strip(): better.strip() for word, better in pairs}


def uses(pattern: re.Pattern[str], root: Path = ROOT) -> list[str]:
    """Return the uses of a pattern in names and texts of files, except tests of old names."""
    found = []
    files = [root / "README.md", root / "CONTRIBUTING.md"]
    files += [path for folder in FOLDERS for path in sorted((root / folder).rglob("*"))]
    for path in files:
        name = path.relative_to(root).as_posix()
        if path.suffix not in SUFFIXES or name in MAY_KEEP or not path.is_file():
            continue
        if path.name == "test_deprecations.py":
            continue
        text = f"{name}\n{path.read_text('utf-8', 'replace')}"
        found += [f"{name}:{text[: at.start()].count(chr(10))}" for at in pattern.finditer(text)]
    return found


def test_no_retired_word_is_used() -> None:
    words = retired()
    assert len(words) > 10
    pattern = re.compile(rf"\b(?:{'|'.join(words)})(?!\w)", re.IGNORECASE)
    assert uses(pattern) == [], f"use the words of {LIST.name} instead"


def test_retired_words_are_found(tmp_path: Path) -> None:
    (tmp_path / "core").mkdir()
    for name in ("README.md", "CONTRIBUTING.md"):
        (tmp_path / name).write_text("nothing\n")
    (tmp_path / "core" / "apart.py").write_text("x = 1\nOf Python's Lock\n")
    pattern = re.compile(rf"\b(?:{'|'.join(retired())})(?!\w)", re.IGNORECASE)
    assert uses(pattern, tmp_path) == ["core/apart.py:0", "core/apart.py:2"]


@pytest.mark.parametrize("word", retired())
def test_each_word_is_a_valid_pattern(word: str) -> None:
    assert re.compile(word)
    assert not re.search(word, retired()[word], re.IGNORECASE), "the better word is retired too"
