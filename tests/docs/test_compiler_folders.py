"""The page on the compiler lists its folders, in the order of the floors, with what they import."""

from __future__ import annotations

import re
from pathlib import Path

from tests.plugins.jit.test_floors import FILES, FLOORS, floor_of, imported_by

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "jit.md"
_TABLE = re.compile(r"<!-- compiler folders -->\n(?P<table>.*?)<!-- end -->", re.DOTALL)


def listed_folders() -> dict[str, list[str]]:
    """Return each folder of the table with the folders that it imports."""
    match = _TABLE.search(PAGE.read_text(encoding="utf-8"))
    assert match is not None
    rows = [row.strip("|").split("|") for row in match["table"].splitlines()[2:]]
    return {name.strip(" `"): re.findall(r"`(\w+)`", imports) for name, _, imports in rows}


def test_folders_are_listed_from_the_lowest_floor_up() -> None:
    assert list(listed_folders()) == [floor for floor in FLOORS if floor != "__init__"]


def test_layers_are_listed_with_their_imports() -> None:
    imports: dict[str, set[str]] = {floor: set() for floor in FLOORS}
    for module in FILES:
        own = floor_of(module)
        imports[own] |= {floor_of(imported) for imported in imported_by(module)} - {own}
    del imports["__init__"]
    expected = {own: sorted(found, key=FLOORS.index) for own, found in imports.items()}
    assert listed_folders() == expected
