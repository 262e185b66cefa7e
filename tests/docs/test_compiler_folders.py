"""The page on the compiler lists its folders in the order of their layers, with their imports."""

from __future__ import annotations

import re
from pathlib import Path

from tests.plugins.jit.test_layers import FILES, LAYERS, imported_by, layer_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "jit.md"
_TABLE = re.compile(r"<!-- compiler folders -->\n(?P<table>.*?)<!-- end -->", re.DOTALL)


def listed_folders() -> dict[str, list[str]]:
    """Return each folder of the table with the folders that it imports."""
    match = _TABLE.search(PAGE.read_text(encoding="utf-8"))
    assert match is not None
    rows = [row.strip("|").split("|") for row in match["table"].splitlines()[2:]]
    return {name.strip(" `"): re.findall(r"`(\w+)`", imports) for name, _, imports in rows}


def test_folders_are_listed_from_the_lowest_layer_up() -> None:
    assert list(listed_folders()) == [layer for layer in LAYERS if layer != "__init__"]


def test_layers_are_listed_with_their_imports() -> None:
    imports: dict[str, set[str]] = {layer: set() for layer in LAYERS}
    for module in FILES:
        own = layer_of(module)
        imports[own] |= {layer_of(imported) for imported in imported_by(module)} - {own}
    del imports["__init__"]
    expected = {own: sorted(found, key=LAYERS.index) for own, found in imports.items()}
    assert listed_folders() == expected
