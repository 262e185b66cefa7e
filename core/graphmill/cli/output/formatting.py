"""Write results: tables on a terminal, plain text in a pipe, JSON on request."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import click
import numpy as np

from graphmill.cli.output.visible_text import one_line, say, visible, visible_json
from graphmill.json_data import json_data

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(slots=True)
class Table:
    """Rows under named columns; columns of numbers are aligned right.

    Attributes:
        columns: the headings; no heading row is shown if all are empty.
        rows: the cells; `str` is called on each.
        title: a line above the table.
    """

    columns: Sequence[str]
    rows: list[Sequence[object]] = field(default_factory=list)
    title: str = ""


Block: TypeAlias = Table | str


def emit(data: object, blocks: Iterable[Block], *, as_json: bool) -> None:
    """Write a result to stdout: `data` as JSON on request, else blocks of text and tables."""
    if as_json:
        text = json.dumps(json_data(data), ensure_ascii=False, allow_nan=False, indent=2)
        click.echo(visible_json(text))
    elif sys.stdout.isatty():
        _emit_rich(blocks)
    else:
        for line in _plain_lines(blocks):
            say(line)


def show_array(array: np.ndarray[Any, Any] | np.generic) -> str:
    """Return an array as text; NumPy abbreviates a long one."""
    if array.dtype == object:
        shown = [_show_item(item) for item in np.asarray(array).reshape(-1)]
        array = np.array(shown, dtype=object).reshape(array.shape)
    return np.array2string(
        np.asarray(array), max_line_width=100, precision=6, suppress_small=True,
        formatter={"object": str},
    )  # fmt: skip


def _show_item(item: object) -> str:
    return repr(item.decode("utf-8", "backslashreplace")) if isinstance(item, bytes) else str(item)


def _plain_lines(blocks: Iterable[Block]) -> Iterable[str]:
    """Yield blocks as plain lines, without colours; columns are aligned with spaces."""
    for index, block in enumerate(blocks):
        if index:
            yield ""
        if isinstance(block, str):
            yield block
            continue
        if block.title:
            yield one_line(block.title)
        rows = [[one_line(str(cell)) for cell in row] for row in block.rows]
        if any(block.columns):
            rows.insert(0, [str(head) for head in block.columns])
        yield from _aligned(rows, [_is_number(column) for column in zip(*block.rows, strict=True)])


def _aligned(rows: list[list[str]], right: list[bool]) -> Iterable[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(row, widths, right or [False] * len(row), strict=True)
        ]
        yield "  ".join(cells).rstrip()


def _is_number(column: Iterable[object]) -> bool:
    return all(isinstance(cell, (int, float)) for cell in column)


def _emit_rich(blocks: Iterable[Block]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console()
    for block in blocks:
        if isinstance(block, str):
            console.print(Text(visible(block)))
            continue
        if block.title:
            console.print(Text(one_line(block.title), style="bold"))
        table = RichTable(
            box=box.SIMPLE_HEAD,
            show_header=any(block.columns),
            pad_edge=False,
        )
        right = [_is_number(column) for column in zip(*block.rows, strict=True)]
        for head, is_right in zip(
            block.columns, right or [False] * len(block.columns), strict=True
        ):
            table.add_column(head, justify="right" if is_right else "left", overflow="fold")
        for row in block.rows:
            table.add_row(*(Text(one_line(str(cell))) for cell in row))
        console.print(table)
