"""Fixtures for tests on Ray itself: marked `ray`, skipped if it is not installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
WORKERS = 4


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.ray)
            # Ray's own processes and warnings are not ours.
            item.add_marker(pytest.mark.filterwarnings("ignore:::ray"))
            item.add_marker(pytest.mark.filterwarnings("ignore:Tip. In future versions of Ray"))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Start four workers on Ray, which may write checkpoints, and stop Ray with them."""
    pytest.importorskip("ray")
    from graphmill_plugins.distributed.ray import start_cluster

    config = {"graphmill": {"allow": [f"fs.write:{tmp_path_factory.getbasetemp()}"]}}
    with start_cluster(WORKERS, name="tests", resources={"CPU": 0.25}, config=config) as made:
        yield made


@pytest.fixture(scope="session")
def example() -> Any:
    """The module of the example."""
    path = ROOT / "examples" / "data_parallel" / "train.py"
    spec = importlib.util.spec_from_file_location("data_parallel_example", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
