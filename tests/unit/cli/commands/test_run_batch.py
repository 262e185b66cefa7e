"""`graphmill run --each` runs all rows of files and reports what it did."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Cli = Callable[..., Any]

pytest.importorskip("PIL")


@pytest.fixture
def pictures(tmp_path: Path, digits: Path) -> Path:
    folder = tmp_path / "pics"
    folder.mkdir()
    for name in ("seven", "nine", "zero"):
        shutil.copy(digits / f"{name}.png", folder)
    return folder


def test_pictures_of_a_folder_are_classified(
    graphmill_cli: Cli, digits: Path, pictures: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.csv"
    model = str(digits / "saved_model_tf2")
    outcome = graphmill_cli("run", model, "--each", str(pictures), "--out", str(out), "--json")
    assert outcome.code == 0
    report = json.loads(outcome.out)
    assert (report["rows"], report["failures"]) == (3, 0)
    lines = [line.split(",") for line in out.read_text().splitlines()]
    assert [(Path(line[0]).stem, line[2]) for line in lines[1:]] == [
        ("nine", "9"),
        ("seven", "7"),
        ("zero", "0"),
    ]
    assert "the pixels of images are scaled to 0..1" in outcome.err


def test_rows_that_fail_give_exit_code_1(
    graphmill_cli: Cli, digits: Path, pictures: Path, tmp_path: Path
) -> None:
    (pictures / "bad.png").write_bytes(b"no image")
    arguments = ("--each", f"{pictures}/*.png", "--out", str(tmp_path / "out.jsonl"))
    model = str(digits / "saved_model_tf2")
    outcome = graphmill_cli("run", model, *arguments)
    assert outcome.code == 3
    assert "bad.png is not an image" in outcome.err
    outcome = graphmill_cli("run", model, *arguments, "--keep-going")
    assert outcome.code == 1
    assert "3 rows in" in outcome.out
    assert "1 failed" in outcome.out
    assert outcome.err.count("bad.png") == 1


def test_input_on_the_command_line_is_the_same_for_all_rows(
    graphmill_cli: Cli, tmp_path: Path
) -> None:
    import graphmill
    from graphmill import ops

    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        ops.math.mul(x, graph.placeholder("float32", [], name="factor"), name="y")
    (tmp_path / "m.pb").write_bytes(graph.as_graph_def().SerializeToString())
    (tmp_path / "in.txt").write_text("1\n2\n")
    out = tmp_path / "out.csv"
    arguments = ("factor=10", "--each", str(tmp_path / "in.txt"), "--out", str(out))
    assert graphmill_cli("run", str(tmp_path / "m.pb"), *arguments).code == 0
    assert [line.rpartition(",")[2] for line in out.read_text().splitlines()[1:]] == [
        "10.0",
        "20.0",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--each", "x.csv"), "--each needs --out"),
        (("--out", "x.csv"), "--out needs --each"),
        (("--jobs", "2"), "--jobs needs --each"),
        (
            ("--each", "x.csv", "--out", "y.csv", "--top", "3"),
            "--top cannot be used with --each; leave it out",
        ),
        (("--each", "x.csv", "--out", "y.csv", "--outdir", "d"), "--outdir cannot be used"),
    ],
)
def test_options_that_do_not_fit_are_usage_errors(
    graphmill_cli: Cli, digits: Path, arguments: tuple[str, ...], message: str
) -> None:
    outcome = graphmill_cli("run", str(digits / "digits_frozen.pb"), *arguments)
    assert outcome.code == 2
    assert message in outcome.err
