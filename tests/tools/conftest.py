"""Let the tests import the tools."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Return a function that imports a module of `tools/`; it is forgotten after the test."""
    monkeypatch.syspath_prepend(str(TOOLS))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if (TOOLS / f"{name}.py").exists():
            del sys.modules[name]
