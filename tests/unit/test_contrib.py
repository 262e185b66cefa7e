"""Distributions in contrib_* use only the plugin interface."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECTS = sorted(file.parent for file in ROOT.glob("contrib_*/*/pyproject.toml"))


def imports(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


@pytest.mark.parametrize("project", PROJECTS, ids=lambda folder: folder.name)
def test_it_imports_only_the_plugin_interface(project: Path) -> None:
    (package,) = (f for f in project.glob("graphmill_*") if f.is_dir() and "info" not in f.name)
    for file in package.rglob("*.py"):
        for module in imports(file):
            if module == "graphmill" or module.startswith(("graphmill.", "graphmill_plugins")):
                assert f"{module}.".startswith("graphmill.spi."), f"{file.name} imports {module}"


@pytest.mark.parametrize("project", PROJECTS, ids=lambda folder: folder.name)
def test_it_is_a_distribution_with_tests_and_a_page(project: Path) -> None:
    meta = tomllib.loads((project / "pyproject.toml").read_text("utf-8"))["project"]
    assert meta["name"] == project.name
    assert any(item.startswith("graphmill>=") for item in meta["dependencies"])
    (point,) = meta["entry-points"]["graphmill.plugins"].values()
    assert (project / point / "__init__.py").exists()
    assert "GRAPHMILL_SPI = " in (project / point / "__init__.py").read_text("utf-8")
    assert (project / "README.md").exists()
    assert list((project / "tests").glob("test_*.py"))
