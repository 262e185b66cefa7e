"""`graphmill report` writes one HTML file; without --run nothing runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Cli = Callable[..., Any]


def test_a_model_is_prepared_without_run(graphmill_cli: Cli, digits: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    result = graphmill_cli("report", str(digits / "saved_model_tf2"), "--out", str(out))
    assert result.code == 0, result.err
    assert "No step was run" in result.out
    assert out.read_text("utf-8").count("</html>") == 1


def test_run_feeds_inputs_from_files(graphmill_cli: Cli, digits: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    model, image = str(digits / "digits_frozen.pb"), f"image=@{digits / 'seven.png'}"
    arguments = ("--run", image, "--steps", "2", "--out", str(out), "--title", "Digits", "--json")
    result = graphmill_cli("report", model, *arguments)
    assert result.code == 0, result.err
    data = json.loads(result.out)
    assert [step["name"] for step in data["steps"]] == ["step 1 of 2", "step 2 of 2"]
    assert data["notes"] == []
    assert data["bytes"] == len(out.read_bytes())
    assert "<title>Digits</title>" in out.read_text("utf-8")


def test_inputs_that_are_not_given_are_zeros(
    graphmill_cli: Cli, digits: Path, tmp_path: Path
) -> None:
    out = str(tmp_path / "r.html")
    model = str(digits / "saved_model_tf2")
    result = graphmill_cli("report", model, "--run", "--steps", "1", "--out", out)
    assert result.code == 0, result.err
    assert "zeros" in result.out


def test_inputs_need_run(graphmill_cli: Cli, digits: Path) -> None:
    for arguments in (["image=0"], ["--steps", "3"]):
        result = graphmill_cli("report", str(digits / "digits_frozen.pb"), *arguments)
        assert result.code == 2
        assert "need --run" in result.err


def test_a_file_that_cannot_be_written_is_an_error(
    graphmill_cli: Cli, digits: Path, tmp_path: Path
) -> None:
    model = str(digits / "digits_frozen.pb")
    result = graphmill_cli("report", model, "--out", str(tmp_path))
    assert result.code == 3, result.err
    assert str(tmp_path) in result.err


def test_a_step_that_fails_is_an_error_of_execution(
    graphmill_cli: Cli, digits: Path, tmp_path: Path
) -> None:
    model = str(digits / "digits_frozen.pb")
    result = graphmill_cli(
        *("report", model, "--run", "image=np.ones((1, 3, 3, 1))"),
        *("--out", str(tmp_path / "r.html")),
    )
    assert result.code in (3, 4), result.err
    assert not (tmp_path / "r.html").exists()
