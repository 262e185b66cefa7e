"""The table of TensorFlow's names: complete, true, and used for suggestions."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import graphmill
from graphmill import tensorflow_names

ROOT = Path(__file__).parents[2]
SYMBOLS = ROOT / "tools" / "tensorflow_symbols.tsv"


def resolve(name: str) -> Any:
    """Import an object by its full name."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


def test_table_has_every_public_name_of_tensorflow() -> None:
    """The table has all stored names, which an oracle test compares with TensorFlow 2.21."""
    stored = [line.split("\t")[0] for line in SYMBOLS.read_text("utf-8").splitlines()[1:]]
    assert len(stored) > 1900
    assert [row.name for row in tensorflow_names.rows()] == stored


def test_each_name_has_a_counterpart_or_a_reason() -> None:
    assert [row for row in tensorflow_names.rows() if bool(row.ours) == bool(row.reason)] == []


def test_all_our_names_exist() -> None:
    missing = {}
    for ours in sorted({row.ours for row in tensorflow_names.rows() if row.ours}):
        try:
            resolve(ours)
        except (ImportError, AttributeError) as error:
            missing[ours] = str(error)
    assert missing == {}


def test_table_and_page_are_up_to_date() -> None:
    tool = ROOT / "tools" / "make_tensorflow_names.py"
    checked = subprocess.run([sys.executable, tool, "--check"], check=False, cwd=ROOT)
    assert checked.returncode == 0, "run tools/make_tensorflow_names.py"


def test_the_row_of_a_name_is_found() -> None:
    row = tensorflow_names.find("tf.nn.softmax")
    assert row is not None
    assert row.ours == "graphmill.functions.softmax"
    assert tensorflow_names.find("tf.nn.softmacks") is None


@pytest.mark.parametrize(
    ("module", "name", "message"),
    [
        ("graphmill", "reduce_mean", "tf.reduce_mean is graphmill.functions.reduce_mean"),
        ("graphmill.ops", "reduce_mean", "tf.reduce_mean is graphmill.functions.reduce_mean"),
        ("graphmill.ops.math", "matmul", "tf.matmul is graphmill.functions.matmul"),
        ("graphmill.functions", "exp", "tf.exp is graphmill.ops.math.exp"),
        ("graphmill.train", "get_variable", "has no counterpart here: there are no variable"),
        ("graphmill.data", "NumpyIterator", "part of the pipeline's internals"),
        ("graphmill.train", "AdamOptimiser", "did you mean 'AdamOptimizer'"),
        ("graphmill.ops.math", "add_v3", "did you mean 'add_v2'"),
    ],
)
def test_error_of_an_unknown_name_has_its_location(module: str, name: str, message: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(importlib.import_module(module), name)
    assert message in str(caught.value)


def test_import_of_a_submodule_does_not_read_the_table() -> None:
    """`from graphmill import proto` asks for the attribute before it imports the module."""
    code = (
        "from graphmill import proto, tensorflow_names; from graphmill.data import steps; "
        "from graphmill.functions import nn; "
        "print(tensorflow_names.rows.cache_info().misses)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"


def test_every_function_is_in_the_table() -> None:
    """A function that has TensorFlow's name is TensorFlow's counterpart."""
    listed = {row.ours for row in tensorflow_names.rows()}
    names = {f"graphmill.functions.{name}" for name in graphmill.functions.__all__}
    assert names - listed == set()
