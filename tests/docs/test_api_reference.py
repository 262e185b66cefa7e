"""The pages of the Python API agree with the docstrings."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

import graphmill

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    path = ROOT / "tools" / "make_api_reference.py"
    spec = importlib.util.spec_from_file_location("make_api_reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(sys.version_info[:2] != (3, 12), reason="Pythons print some defaults otherwise")
def test_pages_are_up_to_date(tool: Any) -> None:
    assert tool.outdated() == [], "run python tools/make_api_reference.py"


def test_every_public_module_is_on_a_page(tool: Any) -> None:
    pages = {name for *_, modules in tool.PAGES.values() for name in modules}
    modules = {
        f"graphmill.{name}"
        for name in graphmill.__all__
        if type(getattr(graphmill, name)) is type(graphmill)
    }
    elsewhere = {"graphmill.ops", "graphmill.errors", "graphmill.dtypes", "graphmill.graph"}
    assert modules - pages - elsewhere == set()


def test_every_public_name_has_a_docstring(tool: Any) -> None:
    for *_, modules in tool.PAGES.values():
        for module in map(importlib.import_module, modules):
            names = tool.public_names(module)
            assert [name for name in names if not getattr(module, name).__doc__] == []


def test_sections_of_docstrings_become_lists(tool: Any) -> None:
    text = (
        "Do it.\n\n    code()\n\nArgs:\n    x: a number,\n        or two.\n    y, z: more.\n\nEnd."
    )
    assert tool.markdown(text) == (
        "Do it.\n\n```py\ncode()\n```\n\n*Args:*\n\n- `x`: a number,\n  or two.\n- `y, z`: more."
        "\n\nEnd."
    )


def test_a_signature_has_no_addresses(tool: Any) -> None:
    def function(self: Any, x: int, *, key: Any = tool.signature) -> None:
        del self, x, key

    assert tool.signature("f", function).startswith("f(x, *, key=")
    assert "0x" not in tool.signature("f", function)
