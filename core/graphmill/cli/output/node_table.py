"""The table of nodes of `graphmill explain`, with folded names and in the width of the terminal."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from graphmill.cli.output.explain_summary import NOT_RUN
from graphmill.cli.output.formatting import Table
from graphmill.graph.device_name import local_name

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from graphmill.cli.output.formatting import Block
    from graphmill.explain.step import NodeRecord

_COLUMNS: Final = ("node", "op", "device", "placement", "kernel", "backend", "tier")
_ALWAYS: Final = ("node", "op", "tier")
_FOLDED_ALWAYS: Final = ("placement",)
_DROPPED_FIRST: Final = ("backend", "kernel", "placement", "device")
_LEAST_NAME: Final = 16
_GAP: Final = 2


def node_blocks(
    records: Sequence[NodeRecord],
    width: int | None,
    added: Collection[str] = (),
    *,
    has_run: bool = True,
) -> list[Block]:
    """Return the table of nodes as blocks of output.

    Args:
        records: the nodes.
        width: the width of the terminal, to which the table is fitted: nodes stand below their name
            scope, columns with one value become a line above it, and others are left out if they do
            not fit. None for whole names and all columns except a placement that all nodes share.
        added: names of the nodes that are not in the model.
        has_run: whether a step has run the nodes.
    """
    rows = [
        dict(zip(_COLUMNS, _cells(record, added, has_run=has_run), strict=True))
        for record in records
    ]
    if not rows:
        return [Table(_COLUMNS)]
    lines, columns = _constant_columns(rows, _FOLDED_ALWAYS if width is None else _COLUMNS)
    if width is None:
        return [*lines, Table(columns, [[row[name] for name in columns] for row in rows])]
    notes: list[Block] = []
    folded = _folded(rows)
    left_out = []
    for name in _DROPPED_FIRST:
        if name in columns and _width(folded, columns) > width:
            columns.remove(name)
            left_out.append(name)
    excess = _width(folded, columns) - width
    if excess > 0:
        longest = max(len(row["node"]) for row in folded)
        for row in folded:
            row["node"] = _shortened(row["node"], max(longest - excess, _LEAST_NAME))
    if left_out:
        notes.append(f"left out, as the terminal is too narrow: {', '.join(left_out)} (see --node)")
    return [*lines, Table(columns, [[row[name] for name in columns] for row in folded]), *notes]


def _cells(record: NodeRecord, added: Collection[str], *, has_run: bool) -> tuple[str, ...]:
    device = local_name(record.device)
    kernel = record.kernel.removeprefix("graphmill_plugins.kernels.")
    op = f"{record.op} (added)" if record.node in added else record.op
    tier = record.tier if has_run else NOT_RUN
    return (record.node, op, device, record.placement, kernel, record.backend, tier)


def _constant_columns(
    rows: Sequence[dict[str, str]], candidates: Sequence[str]
) -> tuple[list[Block], list[str]]:
    """Return a line for each candidate column with only one value, and the remaining columns."""
    notes: list[Block] = []
    columns = list(_COLUMNS)
    for name in candidates:
        values = {row[name] for row in rows}
        if len(rows) > 1 and len(values) == 1 and name not in _ALWAYS:
            columns.remove(name)
            notes.append(f"{name} of all nodes: {values.pop() or '-'}")
    return notes, columns


def _folded(rows: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """Return the rows with nodes of one scope below a row with the scope's name."""
    sizes = Counter(_scope(row["node"]) for row in rows)
    folded: list[dict[str, str]] = []
    current = ""
    for row in rows:
        scope = _scope(row["node"])
        if not scope or sizes[scope] == 1:
            folded.append(dict(row))
            current = ""
            continue
        if scope != current:
            folded.append({**dict.fromkeys(_COLUMNS, ""), "node": f"{scope}/"})
            current = scope
        folded.append({**row, "node": "  " + row["node"][len(scope) + 1 :]})
    return folded


def _scope(name: str) -> str:
    return name.rpartition("/")[0]


def _width(rows: Sequence[dict[str, str]], columns: Sequence[str]) -> int:
    return sum(max(len(name), *(len(row[name]) for row in rows)) + _GAP for name in columns)


def _shortened(text: str, length: int) -> str:
    if len(text) <= length:
        return text
    tail = length * 2 // 3
    return f"{text[: length - tail - 1]}…{text[-tail:]}"
