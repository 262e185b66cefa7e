"""`graphmill freeze` writes a GraphDef or SavedModel, and refuses unknown names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Cli = Callable[..., Any]

pytest.importorskip("google_crc32c")


def test_graph_is_written_and_runs(graphmill_cli: Cli, digits: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.pb"
    for _ in range(2):  # the second one replaces the first
        arguments = (str(digits / "saved_model_tf1"), "--out", str(out), "--json")
        outcome = graphmill_cli("freeze", *arguments)
        assert outcome.code == 0, outcome.err
    data = json.loads(outcome.out)
    assert data["path"] == str(out)
    assert data["signatures"] == ["serving_default"]
    assert "GraphDef" in graphmill_cli("show", str(out)).out


def test_saved_model_is_written_once(graphmill_cli: Cli, digits: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    arguments = ("freeze", str(digits / "saved_model_tf2"), "--out", str(out))
    assert graphmill_cli(*arguments).code == 0
    assert "serving_default" in graphmill_cli("show", str(out)).out
    again = graphmill_cli(*arguments)
    assert again.code == 3
    assert "exists already" in again.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--signature", "serving_defualt"), "did you mean 'serving_default'"),
        (("--fetch", "no/such:0"), "no/such"),
        (("--tags", "train"), "no meta graph with exactly the tags"),
    ],
)
def test_unknown_names_are_refused(
    graphmill_cli: Cli, digits: Path, tmp_path: Path, arguments: Any, message: str
) -> None:
    model = str(digits / "saved_model_tf2")
    outcome = graphmill_cli("freeze", model, "--out", str(tmp_path / "m.pb"), *arguments)
    assert outcome.code == 3
    assert message in outcome.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("model", ["digits_frozen.pb", "saved_model_tf2"])
def test_unknown_input_is_refused(
    graphmill_cli: Cli, digits: Path, tmp_path: Path, model: str
) -> None:
    arguments = ("--out", str(tmp_path / "m.pb"), "--input", "imgae")
    outcome = graphmill_cli("freeze", str(digits / model), *arguments)
    assert outcome.code == 3
    assert "no input 'imgae'; did you mean 'image'" in outcome.err
