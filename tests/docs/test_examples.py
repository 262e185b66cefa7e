"""The programs in `examples/` run and give the results that they describe."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill.cli.main import run_command_line

pytestmark = [pytest.mark.divided, pytest.mark.usefixtures("no_cache_of_jax")]

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def load(name: str) -> Any:
    """Import a program by its path in `examples/`."""
    spec = importlib.util.spec_from_file_location(f"example_{Path(name).parent}", EXAMPLES / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def needs(*packages: str) -> None:
    for package in packages:
        pytest.importorskip(package)


def test_every_example_is_listed() -> None:
    text = (EXAMPLES / "README.md").read_text("utf-8")
    folders = [folder.name for folder in EXAMPLES.iterdir() if folder.is_dir()]
    assert [name for name in folders if f"`{name}`" not in text] == []


def test_text_classifier_takes_sentences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    accuracy = load("text_classifier/train.py").train(tmp_path / "model", steps=60)
    assert accuracy > 0.95
    words = '["What a LOVELY film!", "dull, tedious"]'
    assert run_command_line(["run", str(tmp_path / "model"), f"text={words}", "--json"]) == 0
    (praise,) = json.loads(capsys.readouterr().out)["outputs"].values()
    good, bad = np.ravel(praise["value"] if isinstance(praise, dict) else praise)
    assert good > 0.5 > bad


def test_text_without_words_is_neutral(tmp_path: Path) -> None:
    load("text_classifier/train.py").train(tmp_path / "model", steps=1)
    model = graphmill.saved_model.load(tmp_path / "model").signatures["serving_default"]
    assert np.asarray(model(text=["...", ""])["praise"]).tolist() == [0.5, 0.5]


def test_served_images_are_classified() -> None:
    needs("PIL", "uvicorn")
    answers = load("served_images/serve.py").main()
    assert answers == {"nine.png": 9, "seven.png": 7, "three.png": 3, "zero.png": 0}


@pytest.mark.jax
def test_lstm_learns_and_its_exported_loop_has_the_same_gradient() -> None:
    error, difference = load("lstm/train.py").train(steps=250)
    assert error < 0.05  # a constant answer has 0.17
    assert difference < 1e-5


def test_detector_finds_the_squares_once_each() -> None:
    detection = load("detection/detect.py")
    assert sorted(detection.main()) == sorted(detection.SQUARES)


def test_training_continues_from_the_checkpoint_of_tensorflow(tmp_path: Path) -> None:
    step, before, after = load("continue_training/train.py").train(str(tmp_path), steps=300)
    assert step == 320
    assert after > before + 0.1
    assert (tmp_path / "spirals-320.index").is_file()


def test_own_device_counts_copies() -> None:
    result, copies = load("own_device/device.py").main()
    assert result == pytest.approx(4294.967, rel=1e-4)
    assert copies["in"] >= 256 * 256 * 4
    assert copies["out"] < 1000


def test_served_op_answers() -> None:
    """Runs in a separate process, because it changes the set of plugins."""
    needs("uvicorn")
    program = [sys.executable, str(EXAMPLES / "served_op" / "serve.py")]
    done = subprocess.run(program, capture_output=True, text=True, env={**os.environ})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == pytest.approx([0.0, 0.880797])
