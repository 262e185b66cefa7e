"""`graphmill new-plugin` prints the next steps, and warns about replaced plugins."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


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
