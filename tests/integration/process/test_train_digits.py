"""A digits network built and trained with graphmill reaches 97 % accuracy."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import graphmill

EXAMPLE = Path(__file__).parents[3] / "examples" / "digits" / "train.py"


def load_example() -> Any:
    spec = importlib.util.spec_from_file_location("train_digits_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_example_trains(tmp_path: Path) -> None:
    assert load_example().train(str(tmp_path)) >= 0.97
    latest = graphmill.train.latest_checkpoint(tmp_path)
    assert latest is not None
    names = dict(graphmill.train.list_variables(latest))
    assert names["conv1/kernel"] == (3, 3, 1, 16)
    assert names["conv1/kernel/Adam"] == (3, 3, 1, 16)
