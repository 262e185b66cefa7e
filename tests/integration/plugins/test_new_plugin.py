"""A project of `graphmill new-plugin` is found when installed, and passes its tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest

from graphmill import errors
from graphmill.templates.render import KINDS, write_plugin

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.divided


def install(project: Path) -> None:
    """Make a distribution look installed in editable mode."""
    meta = tomllib.loads((project / "pyproject.toml").read_text("utf-8"))["project"]
    info = project / f"{meta['name'].replace('-', '_')}-{meta['version']}.dist-info"
    info.mkdir()
    requires = "".join(f"Requires-Dist: {item}\n" for item in meta["dependencies"])
    head = f"Metadata-Version: 2.1\nName: {meta['name']}\nVersion: {meta['version']}\n"
    (info / "METADATA").write_text(head + requires)
    points = meta["entry-points"]["graphmill.plugins"].items()
    lines = "".join(f"{name} = {value}\n" for name, value in points)
    (info / "entry_points.txt").write_text(f"[graphmill.plugins]\n{lines}")


@pytest.mark.parametrize("kind", KINDS)
def test_generated_plugin_passes_its_tests(kind: str, tmp_path: Path) -> None:
    write_plugin(kind, f"my-{kind}", tmp_path)
    project = tmp_path / f"graphmill-my-{kind}"
    install(project)
    options = ["-q", "-p", "no:cacheprovider", "-W", "error", "--graphmill-every", "60"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "tests"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(project), *filter(None, sys.path)])},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert " passed" in done.stdout


def test_its_continuous_integration_runs_the_suites(tmp_path: Path) -> None:
    """The CI workflow of a new plugin runs the suites."""
    files = write_plugin("device", "mine", tmp_path)
    workflow = tmp_path / "graphmill-mine" / ".github" / "workflows" / "test.yml"
    assert workflow in files
    steps = [line.strip() for line in workflow.read_text("utf-8").splitlines() if "- run:" in line]
    assert steps == [
        "- run: pip install \"${{ vars.GRAPHMILL || 'graphmill' }}\"",
        "- run: pip install '.[test]'",
        "- run: graphmill doctor",
        "- run: pytest --graphmill-coverage",
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_it_imports_only_the_plugin_interface(kind: str, tmp_path: Path) -> None:
    for file in write_plugin(kind, "mine", tmp_path):
        if file.suffix == ".py" and file.parent.name != "tests":
            text = file.read_text("utf-8")
            assert not re.search(r"from graphmill\.(?!spi[ .])", text), file.name


def test_a_folder_is_never_overwritten(tmp_path: Path) -> None:
    write_plugin("op", "mine", tmp_path)
    with pytest.raises(errors.AlreadyExistsError, match="another name"):
        write_plugin("kernel", "mine", tmp_path)


@pytest.mark.parametrize("name", ["", "Mine", "my_thing", "-x", "a--b", "../x"])
def test_a_name_that_cannot_be_one_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="lower-case letters"):
        write_plugin("op", name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_unknown_kind_lists_alternatives(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="device, executor"):
        write_plugin("gadget", "mine", tmp_path)
