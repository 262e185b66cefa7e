"""Show what a model answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.cli.files import read_bytes
from graphmill.cli.output import Block, Table, dtype_name, show_array
from graphmill.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


def read_labels(path: str) -> list[str]:
    """Return the names of classes: the lines of a text file.

    Raises:
        OpError: it cannot be read, or is not text.
    """
    try:
        return read_bytes(path).decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"{path} is not text in UTF-8: {error}") from error


def answer_blocks(
    outputs: Mapping[str, Any], *, top: int | None, labels: Sequence[str] | None
) -> Iterator[Block]:
    """Yield outputs as text; with `top`, floats as the table of their largest elements."""
    for name, value in outputs.items():
        array = np.asarray(value)
        head = f"{name}: {dtype_name(array)} {list(array.shape)}"
        is_scores = array.dtype.kind in "fV" and array.ndim > 0 and array.shape[-1] > 1
        if top is not None and is_scores:
            yield _top_table(head, array, top, labels)
        else:
            yield f"{head}\n{show_array(array)}"


def _top_table(
    head: str, array: np.ndarray[Any, Any], top: int, labels: Sequence[str] | None
) -> Table:
    """Return the `top` largest elements of each row, the largest first."""
    rows = array.reshape(-1, array.shape[-1]).astype(np.float64)
    columns = ["index", "score"]
    if labels is not None:
        columns.insert(1, "label")
    if len(rows) > 1:
        columns.insert(0, "row")
    table = Table(columns, title=head)
    for number, row in enumerate(rows):
        for index in np.argsort(-row, kind="stable")[:top].tolist():
            cells: list[object] = [index, _score(float(row[index]))]
            if labels is not None:
                cells.insert(1, labels[index] if index < len(labels) else "?")
            if len(rows) > 1:
                cells.insert(0, number)
            table.rows.append(cells)
    return table


def _score(value: float) -> str:
    return f"{value:.4f}" if value == 0 or 1e-4 <= abs(value) < 1e4 else f"{value:.3e}"
