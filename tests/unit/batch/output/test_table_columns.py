"""Results in tables have one column for each name, whatever the outputs are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from graphmill.batch.contents import TextLine
from graphmill.batch.output.formats import write_results
from graphmill.batch.row import Failure, Row
from graphmill.batch.runner import BatchResult
from graphmill.batch.store import ResultStore
from graphmill.errors import InternalError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    """The results of two rows with outputs named `file`, `line` and `error`, and a failed row."""
    store = ResultStore(str(tmp_path / "out"))
    store.begin({}, resume=False, overwrite=False)
    rows = [Row(i, "in.csv", i + 2, TextLine("")) for i in range(3)]
    values = np.array([1.5, 2.5])
    outputs = {"file": values, "line": values + 1, "error": values + 2}
    failure = Failure(rows[2], InternalError("no"))
    store.add(0, 3, [BatchResult(rows[:2], outputs, [failure], (0, 3), 0)])
    return store


def test_output_with_the_name_of_another_column_gets_a_suffix(
    store: ResultStore, tmp_path: Path
) -> None:
    write_results(str(tmp_path / "out.csv"), store, with_errors=True)
    header, first, _, last = (tmp_path / "out.csv").read_text().splitlines()
    assert header == "file,line,file_output,line_output,error_output,error"
    assert first == "in.csv,2,1.5,2.5,3.5,"
    assert last == "in.csv,4,,,,InternalError: no"


def test_output_named_error_keeps_its_name_without_a_column_of_errors(
    store: ResultStore, tmp_path: Path
) -> None:
    write_results(str(tmp_path / "out.csv"), store, with_errors=False)
    header = (tmp_path / "out.csv").read_text().splitlines()[0]
    assert header == "file,line,file_output,line_output,error"


def test_parquet_has_locations_and_outputs_of_the_same_names(
    store: ResultStore, tmp_path: Path
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    write_results(str(tmp_path / "out.parquet"), store, with_errors=True)
    first, _, last = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert (first["file"], first["line"], first["error"]) == ("in.csv", 2, None)
    assert [first[f"{name}_output"] for name in ("file", "line", "error")] == [1.5, 2.5, 3.5]
    assert (last["line"], last["error"]) == (4, "InternalError: no")


def test_npz_has_an_array_for_each_output(tmp_path: Path) -> None:
    store = ResultStore(str(tmp_path / "out"))
    store.begin({}, resume=False, overwrite=False)
    names = ["a/b", "a_b", "a/b_output", "failed_line", "line"]
    outputs = {name: np.full(1, index) for index, name in enumerate(names)}
    store.add(0, 1, [BatchResult([Row(0, "in.csv", 2, TextLine(""))], outputs, [], (0, 1), 0)])
    write_results(str(tmp_path / "out.npz"), store, with_errors=True)
    with np.load(tmp_path / "out.npz") as arrays:
        found = {name: array[0] for name, array in arrays.items() if array.size}
    assert found == {
        "file": "in.csv",
        "line": 2,
        "a_b": 1,
        "a_b_output": 0,
        "a_b_output_output": 2,
        "failed_line_output": 3,
        "line_output": 4,
    }
