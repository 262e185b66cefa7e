"""Folders have at most about twenty modules; larger ones are divided by concept."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Final

ROOT = Path(__file__).parents[2]
FOLDERS: Final = ("core", "plugins", "contrib_devices", "contrib_executors", "tests", "tools")
MAX_MODULES: Final = 22
EXCEPTIONS: Final = {
    "core/graphmill/ops",
    "core/graphmill/proto",
    "plugins/graphmill_plugins/kernels/array",
    "plugins/graphmill_plugins/kernels/math",
    "tools",
}
"""The folders that may be larger; the page on organisation says why."""
PAGE = ROOT / "docs" / "explanation" / "organisation.md"


def sizes(root: Path) -> Counter[str]:
    """Return the number of modules of each folder, without `__init__`."""
    return Counter(
        path.parent.relative_to(root).as_posix()
        for folder in FOLDERS
        for path in (root / folder).rglob("*.py")
        if path.name != "__init__.py"
    )


def too_large(root: Path) -> dict[str, int]:
    return {folder: size for folder, size in sizes(root).items() if size > MAX_MODULES}


def test_large_folders_are_divided() -> None:
    assert too_large(ROOT).keys() - EXCEPTIONS == set(), too_large(ROOT)


def test_exceptions_are_explained_on_the_page() -> None:
    section = (
        PAGE.read_text("utf-8").partition("with four exceptions")[2].partition("\nCore never")[0]
    )
    named = re.findall(r"`([\w/]+)`", section)
    assert [one for one in EXCEPTIONS if one not in named and Path(one).name not in named] == []


def test_modules_are_counted(tmp_path: Path) -> None:
    folder = tmp_path / "core" / "large"
    folder.mkdir(parents=True)
    for number in range(MAX_MODULES):
        (folder / f"m{number}.py").touch()
    (folder / "__init__.py").touch()
    assert too_large(tmp_path) == {}
    (folder / "one_more.py").touch()
    assert too_large(tmp_path) == {"core/large": MAX_MODULES + 1}
