"""Print the outputs of a model."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.cli.output.formatting import Block, Table, show_array
from graphmill.cli.output.visible_text import one_line
from graphmill.errors import InvalidArgumentError
from graphmill.inputs.input_files import read_bytes
from graphmill.json_data import dtype_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


_NOT_IN_A_NAME: Final = re.compile(r'[\x00-\x1f\x7f/\\:*?"<>|]')
"""Characters that an operating system rejects in file names, or reads as separators."""


def read_labels(path: str) -> list[str]:
    """Return the class names in a text file, one per line.

    Raises:
        OpError: the file cannot be read, or is not text.
    """
    try:
        return read_bytes(path).decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"{path} is not text in UTF-8: {error}") from error


def output_file_name(output: str) -> str:
    """Return the name of the file that holds the value of an output."""
    return _NOT_IN_A_NAME.sub("_", output) + ".npy"


def top_entries(
    outputs: Mapping[str, Any], top: int, labels: Sequence[str] | None
) -> dict[str, list[list[dict[str, Any]]]]:
    """Return the `top` largest elements of each row of each float output, in descending order.

    An element is a dict of `index`, `score`, and `label` if there are labels. A row is a slice
    along the last dimension. Outputs that are not floats, or whose last dimension is smaller than
    2, are left out.
    """
    entries = {}
    for name, value in outputs.items():
        array = np.asarray(value)
        if array.dtype.kind in "fV" and array.ndim and array.shape[-1] > 1:
            rows = array.reshape(-1, array.shape[-1]).astype(np.float64)
            entries[name] = [_largest(row, top, labels) for row in rows]
    return entries


def output_blocks(
    outputs: Mapping[str, Any], top: Mapping[str, list[list[dict[str, Any]]]]
) -> Iterator[Block]:
    """Yield outputs as text; those in `top` as a table of their largest elements."""
    for name, value in outputs.items():
        array = np.asarray(value)
        head = f"{one_line(name)}: {dtype_name(array)} {list(array.shape)}"
        if name in top:
            yield _top_table(head, top[name])
        else:
            yield f"{head}\n{show_array(array)}"


def _largest(
    row: np.ndarray[Any, Any], top: int, labels: Sequence[str] | None
) -> list[dict[str, Any]]:
    entries = []
    for index in np.argsort(-row, kind="stable")[:top].tolist():
        entry: dict[str, Any] = {"index": index}
        if labels is not None:
            entry["label"] = labels[index] if index < len(labels) else "?"
        entry["score"] = float(row[index])
        entries.append(entry)
    return entries


def _top_table(head: str, rows: Sequence[Sequence[Mapping[str, Any]]]) -> Table:
    columns = list(rows[0][0]) if rows else ["index", "score"]
    several = len(rows) > 1
    table = Table(["row", *columns] if several else columns, title=head)
    for index, row in enumerate(rows):
        for entry in row:
            cells = [_score(value) if key == "score" else value for key, value in entry.items()]
            table.rows.append([index, *cells] if several else cells)
    return table


def _score(value: float) -> str:
    return f"{value:.6f}" if value == 0 or 1e-4 <= abs(value) < 1e4 else f"{value:.3e}"
