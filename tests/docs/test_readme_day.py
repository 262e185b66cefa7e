"""Each line of a day's work in the README runs, in a copy of the examples."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.divided, pytest.mark.jax]

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"<!-- day: .*? -->\s*```sh\n(?P<lines>.*?)```", re.DOTALL)
SERVED = "http://127.0.0.1:8501"
SECONDS = 120


def lines() -> list[str]:
    """Return the commands, without their comments."""
    match = _BLOCK.search((ROOT / "README.md").read_text("utf-8"))
    assert match is not None
    return [re.sub(r"\s+# .*", "", line) for line in match["lines"].splitlines()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    return tmp_path


def start(line: str, folder: Path) -> subprocess.Popen[str]:
    """Start a command; `graphmill` and `python` are those of this interpreter."""
    words = shlex.split(line)
    programs = {"graphmill": [sys.executable, "-m", "graphmill"], "python": [sys.executable]}
    return subprocess.Popen(
        [*programs[words[0]], *words[1:]], cwd=folder, text=True, env={**os.environ},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def run(line: str, folder: Path) -> str:
    """Run a command to its end; return its output."""
    out, complaint = (process := start(line, folder)).communicate(timeout=SECONDS)
    assert process.returncode == 0, complaint
    return out


@pytest.fixture
def server(folder: Path) -> Iterator[str]:
    """Start the server of the README on a free port; yield its address."""
    pytest.importorskip("uvicorn")
    process = start(line_of("graphmill serve-model").removesuffix("&") + " --port 0", folder)
    assert process.stdout is not None
    ready = process.stdout.readline().split()
    assert ready[:1] == ["READY"], ready
    yield ready[1]
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=SECONDS)
    assert process.returncode == 0


def line_of(prefix: str) -> str:
    """Return the README's first line that starts with a prefix."""
    return next(line for line in lines() if line.startswith(prefix))


def test_the_day_has_run_batch_serve_train_and_export() -> None:
    first = [" ".join(shlex.split(line)[:2]) for line in lines()]
    assert first == [
        "graphmill show",
        "graphmill run",
        "graphmill run",
        "graphmill serve-model",
        "curl --data",
        "python examples/continue_training/train.py",
        "graphmill freeze",
        "graphmill export",
    ]


def test_show_lists_the_signature(folder: Path) -> None:
    assert "serving_default" in run(line_of("graphmill show"), folder)


def test_run_classifies_one_image_and_a_folder(folder: Path) -> None:
    pytest.importorskip("PIL")
    one, many = (line for line in lines() if line.startswith("graphmill run"))
    assert re.search(r"^\s*7\s+0\.9", run(one, folder), re.MULTILINE)
    run(many, folder)
    assert len((folder / "result.csv").read_text().splitlines()) == 5


def test_server_answers(server: str, folder: Path) -> None:
    _, option, data, url = shlex.split(line_of("curl"))
    assert option == "--data"
    body = (folder / data.removeprefix("@")).read_bytes()
    with urllib.request.urlopen(url.replace(SERVED, server), body) as response:
        (prediction,) = json.load(response)["predictions"]
    assert prediction["classes"] == 7


def test_training_continues(folder: Path) -> None:
    said = run(line_of("python"), folder)
    assert re.fullmatch(r"step 620: accuracy 0\.\d+ before, 0\.9\d+ now\n", said)
    assert list((folder / "trained").glob("spirals-620.*"))


def test_freeze_writes_a_graph(folder: Path) -> None:
    run(line_of("graphmill freeze"), folder)
    assert (folder / "digits.pb").stat().st_size > 1000


def test_export_writes_a_program(folder: Path) -> None:
    pytest.importorskip("flatbuffers")
    run(line_of("graphmill export"), folder)
    assert "stablehlo" in (folder / "program" / "program.mlir").read_text()
