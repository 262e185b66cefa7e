"""Loading a model takes little more memory than its weights (budget: 2.2 times its size)."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import ModuleType

TOOL = Path(__file__).parents[3] / "tools" / "measure_load.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("measure_load", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peaks are read from /proc")
@pytest.mark.parametrize("kind", ["constants", "variables"])
def test_loading_and_running_100_mb_stays_within_the_budget(
    kind: str, tool: Any, tmp_path: Path
) -> None:
    path = tool.make_model(tmp_path / kind, kind, 100)
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    _, loaded, ran, _, _ = tool.measure(path)
    assert loaded < 2.2 * size
    assert ran < 2.2 * size
