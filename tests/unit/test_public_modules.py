"""The modules that pages name are attributes of `graphmill`, without an import of their own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import graphmill

ROOT = Path(__file__).parents[2]
FOLDER = Path(graphmill.__file__).parent
USE = re.compile(r"(?<![\w./-])(?<!from )graphmill\.(\w+)\.\w")
IMPORTED_BY_NAME = {"spi", "testing"}
"""Pages import names from these modules, as in `from graphmill.spi import kernel`."""


def named_modules() -> set[str]:
    """Return the modules of the package in `graphmill.NAME.` on the how-to pages."""
    pages = [*(ROOT / "docs" / "howto").glob("*.md"), ROOT / "README.md"]
    names = {
        name
        for page in pages
        for name in re.findall(
            r"(?<![\w./-])(?<!from )graphmill\.(\w+)\.\w", page.read_text("utf-8")
        )
    }
    return {
        name for name in names if (FOLDER / name).is_dir() or (FOLDER / f"{name}.py").is_file()
    } - IMPORTED_BY_NAME


def test_modules_of_pages_are_attributes() -> None:
    names = sorted(named_modules())
    assert "proto" in names
    missing = "import graphmill, sys; print([n for n in sys.argv[1:] if not hasattr(graphmill, n)])"
    done = subprocess.run(
        [sys.executable, "-c", missing, *names], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
