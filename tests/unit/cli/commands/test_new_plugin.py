"""`graphmill new-plugin` prints the next steps, and warns about replaced plugins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from graphmill.templates.render import write_plugin

if TYPE_CHECKING:
    from pathlib import Path

DEVICES = "/job:localhost/replica:0/task:0/device:"


def test_output_lists_next_steps(graphmill_cli: Any, tmp_path: Path) -> None:
    outcome = graphmill_cli("new-plugin", "device", "npu", "--folder", str(tmp_path))
    assert outcome.code == 0, outcome.err
    assert f"pip install -e '{tmp_path}/graphmill-npu[test]'" in outcome.out
    assert "note:" not in outcome.out


def test_it_notes_a_distribution_of_that_name(
    graphmill_cli: Any, tmp_path: Path, use_dists: Any
) -> None:
    use_dists("good")
    arguments = ("new-plugin", "op", "downstream", "--folder", str(tmp_path))
    assert "note: graphmill-downstream 1.2 is installed" in graphmill_cli(*arguments).out
    again = graphmill_cli(*arguments[:-1], str(tmp_path / "other"), "--json")
    assert json.loads(again.out)["replaces"] == "1.2"


@pytest.mark.parametrize(
    ("kind", "printed"),
    [
        ("op", "[3. 6.]\n"),
        ("executor", "[2. 4.]\n"),
        (
            "device",
            f"['{DEVICES}CPU:0', '{DEVICES}FAST_ONE:0']\n[0. 2.]\n",
        ),
    ],
)
def test_the_readme_shows_how_the_plugin_is_used(tmp_path: Path, kind: str, printed: str) -> None:
    write_plugin(kind, "fast-one", tmp_path)
    text = (tmp_path / "graphmill-fast-one" / "README.md").read_text("utf-8")
    _, _, usage = text.partition("Once it is installed:\n")
    code = textwrap.dedent(usage.partition("\n`.github")[0])
    environment = {
        **os.environ,
        "GRAPHMILL_LOAD_PLUGINS": "graphmill_fast_one",
        "PYTHONPATH": os.pathsep.join([str(tmp_path / "graphmill-fast-one"), *sys.path]),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == (printed, 0), done.stderr


def test_a_readme_without_usage_has_no_empty_section(tmp_path: Path) -> None:
    write_plugin("gradient", "fast-one", tmp_path)
    text = (tmp_path / "graphmill-fast-one" / "README.md").read_text("utf-8")
    assert "Use it" not in text
    assert "\n\n\n" not in text
    assert not [path for path in tmp_path.rglob("*") if path.name == "usage.md"]
