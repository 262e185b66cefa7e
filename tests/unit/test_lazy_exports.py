"""Packages import their public names on first use."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

import pytest

from graphmill.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PACKAGE = """
from graphmill.lazy_exports import lazy_exports
__all__ = ["Circle", "area"]
__getattr__, __dir__ = lazy_exports(__name__, {homes})
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    folder = tmp_path / "lazy_shapes"
    folder.mkdir()
    homes = {"lazy_shapes.circle": ("Circle", "area"), "lazy_shapes.other": ("area",)}
    (folder / "__init__.py").write_text(PACKAGE.format(homes=homes), "utf-8")
    (folder / "circle.py").write_text("class Circle: pass\narea = 'of circles'\n", "utf-8")
    (folder / "other.py").write_text("area = 'of others'\n", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "lazy_shapes"
    for name in [name for name in sys.modules if name.startswith("lazy_shapes")]:
        del sys.modules[name]


def test_module_is_imported_on_first_use(package: str) -> None:
    shapes = importlib.import_module(package)
    assert "lazy_shapes.circle" not in sys.modules
    assert shapes.Circle is sys.modules["lazy_shapes.circle"].Circle
    assert vars(shapes)["Circle"] is shapes.Circle


def test_first_module_that_exports_a_name_is_used(package: str) -> None:
    shapes = importlib.import_module(package)
    assert shapes.area == "of circles"
    assert "lazy_shapes.other" not in sys.modules


def test_names_are_listed_before_their_import(package: str) -> None:
    assert {"Circle", "area"} <= set(dir(importlib.import_module(package)))


def test_unknown_name_suggests_similar_ones(package: str) -> None:
    shapes = importlib.import_module(package)
    with pytest.raises(AttributeError, match=r"'lazy_shapes' has no attribute 'Circel'.*Circle"):
        shapes.Circel  # noqa: B018


@pytest.mark.parametrize("package", ["train", "data", "functions"])
def test_every_public_name_has_a_module(package: str) -> None:
    module = importlib.import_module(f"graphmill.{package}")
    assert [name for name in module.__all__ if getattr(module, name) is None] == []
    assert {name for names in module._HOMES.values() for name in names} >= set(module.__all__)


def test_lazy_exports_needs_an_imported_package() -> None:
    with pytest.raises(KeyError):
        lazy_exports("not_imported", {})
