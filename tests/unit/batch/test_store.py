"""Results of an unfinished run are stored, and read again in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill.batch.row import Row
from graphmill.batch.runner import BatchResult
from graphmill.batch.store import ResultStore
from graphmill.errors import DataLossError

if TYPE_CHECKING:
    from pathlib import Path


def result(start: int, values: Any) -> BatchResult:
    """Return the result of a step whose rows are the lines from `start` on."""
    array = np.asarray(values)
    rows = [Row(start + i, "in.csv", start + i, {}) for i in range(len(array))]
    return BatchResult(rows, {"y": array}, [], (start, start + len(array)), start)


def test_steps_with_outputs_of_equal_shapes_are_read_together(tmp_path: Path) -> None:
    store = ResultStore(str(tmp_path / "out.csv"))
    store.begin({}, resume=False, overwrite=False)
    strings = np.array([b"a", b"bc"], object)
    steps = [[[1.0], [2.0]], [[3.0]], [[4.0, 5.0]], strings]
    starts = [0, 2, 3, 4]
    store.add(0, 6, [result(start, step) for start, step in zip(starts, steps, strict=True)])
    found = [(part.outputs["y"].tolist(), [row[0] for row in part.rows]) for part in store.read()]
    assert found == [
        ([[1.0], [2.0], [3.0]], [0, 1, 2]),
        ([[4.0, 5.0]], [3]),
        ([b"a", b"bc"], [4, 5]),
    ]
    assert store.counts() == (6, 0)


@pytest.mark.parametrize("size", [0, 60, -10])
def test_damaged_file_of_results_is_data_loss(tmp_path: Path, size: int) -> None:
    store = ResultStore(str(tmp_path / "out.csv"))
    store.begin({}, resume=False, overwrite=False)
    store.add(0, 2, [result(0, [1.0, 2.0])])
    (path,) = store.folder.glob("rows-*.npz")
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(DataLossError, match=f"{path.name} is damaged .*; delete it, and resume"):
        list(store.read())
