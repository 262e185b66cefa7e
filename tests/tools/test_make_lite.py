"""The tree of graphmill-lite differs in its name and dependencies only."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def make_lite(tool: Any) -> Any:
    return tool("make_lite")


@pytest.fixture
def full() -> str:
    return (ROOT / "pyproject.toml").read_text("utf-8")


def test_lite_requires_what_graphmill_requires_without_jax(make_lite: Any, full: str) -> None:
    before, after = (
        tomllib.loads(text)["project"] for text in (full, make_lite.lite_project(full))
    )
    assert after["name"] == "graphmill-lite"
    assert [item for item in before["dependencies"] if item not in after["dependencies"]] == [
        item for item in before["dependencies"] if item.startswith("jax")
    ]
    assert after["optional-dependencies"].keys() == before["optional-dependencies"].keys()
    for key in ("version", "scripts", "entry-points", "requires-python"):
        assert after[key] == before[key]


def test_no_extra_of_lite_requires_graphmill(make_lite: Any, full: str) -> None:
    extras = tomllib.loads(make_lite.lite_project(full))["project"]["optional-dependencies"]
    assert not [item for items in extras.values() for item in items if "graphmill[" in item]
    assert "graphmill-lite[grpc]" in extras["ray"]


def test_readme_describes_the_plugin(make_lite: Any) -> None:
    title, _, rest = make_lite.lite_readme("# graphmill\n\nRun.\n").partition("\n\n")
    assert title == "# graphmill"
    assert rest.startswith("> This is **graphmill-lite**")
    assert rest.endswith("\n\nRun.\n")


def test_a_project_without_the_dependency_is_refused(make_lite: Any) -> None:
    with pytest.raises(ValueError, match="matches 0 lines; expected one"):
        make_lite.lite_project('name = "graphmill"\ndescription = "x"\n')
