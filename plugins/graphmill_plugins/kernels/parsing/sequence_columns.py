"""Read the requested feature lists of many `SequenceExample`s at once.

Semantics: tensorflow/core/util/example_proto_fast_parsing.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from graphmill.errors import DataLossError
from graphmill.spi.protos import iterate_fields
from graphmill_plugins.kernels.parsing._batch_scan import (
    FIRST,
    list_at,
    one_by_one,
    part_at,
    together,
)
from graphmill_plugins.kernels.parsing._example import (
    check_message,
    parse_entry,
    parse_steps,
    values_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import Value
    from graphmill_plugins.kernels.parsing._batch_scan import Cell, Rows


class Steps(NamedTuple):
    """The values of a feature list.

    Attributes:
        rows: of each step of each example, one example after the other.
        times: how many steps each example has.
        missing: which examples do not have the list, not even an empty one.
    """

    rows: Rows
    times: Value
    missing: list[bool]


class StepScan:
    """The feature lists of some examples that were asked for.

    Args:
        keys: of the lists.
        wheres: the prefix of error messages about each example.
    """

    def __init__(self, keys: Iterable[bytes], wheres: Sequence[str]) -> None:
        self._wheres = wheres
        self._cells: dict[bytes, list[list[Cell] | None]] = {
            key: [None] * len(wheres) for key in keys
        }
        self._kinds: dict[bytes, set[DType]] = {key: set() for key in self._cells}
        self._headers: dict[bytes, dict[bytes, int]] = {key: {} for key in self._cells}
        self._header: dict[bytes, int] = {}
        self._spans: dict[tuple[bytes, int], tuple[bytes, list[tuple[int, int]]]] = {}

    def add(self, row: int, content: bytes, start: int, end: int) -> None:
        """Add the lists of the `FeatureLists` message at a position.

        Raises:
            DataLossError: there is none.
        """
        for number, wire_type, _, _, first, last in iterate_fields(content, start, end):
            if number != 1:
                continue
            check_message(wire_type)
            key, spans = parse_entry(content, first, last)
            if key in self._cells:
                self._spans[key, row] = content, spans
                self._cells[key][row] = [
                    cell for span in spans for cell in self._steps(key, content, *span)
                ]

    def _steps(self, key: bytes, content: bytes, start: int, end: int) -> list[Cell]:
        cells: list[Cell] = []
        kinds, headers = self._kinds[key], self._headers[key]
        at, header = start, self._header.get(key, 0)
        try:
            while at < end:
                size = headers.get(content[at : at + header])
                if size is not None and at + size <= end:
                    cells.append(content[at + header : at + size])
                    at += size
                    continue
                first, last = part_at(content, at, FIRST)
                if not first or last > end:
                    break
                if first == last:
                    cells.append(None)
                else:
                    kind, begin, cell = list_at(content, first, last)
                    if kind is None:
                        break
                    kinds.add(kind)
                    cells.append(cell)
                    self._header[key] = header = begin - at
                    headers[content[at:begin]] = last - at
                at = last
        except (IndexError, DataLossError):
            pass  # the walk says what is wrong
        if at < end:
            features = parse_steps(content, [(at, end)])
            cells += [feature if feature.dtype else None for feature in features]
        return cells

    def column(self, key: bytes, dtype: DType) -> Steps:
        """Return the values of a feature list.

        Raises:
            InvalidArgumentError: an example has some of another type, or malformed ones.
        """
        lists = self._cells[key]
        rows = None
        if self._kinds[key] <= {dtype}:
            rows = together([cell for cells in lists for cell in cells or ()], dtype)
        if rows is None:
            rows = self._walked(key, dtype)
        times = np.array([len(cells or ()) for cells in lists], np.int64)
        return Steps(rows, times, [cells is None for cells in lists])

    def _walked(self, key: bytes, dtype: DType) -> Rows:
        parts = []
        for row, where in enumerate(self._wheres):
            content, spans = self._spans.get((key, row), (b"", []))
            parts += [values_of(step, dtype, key, where) for step in parse_steps(content, spans)]
        return one_by_one(parts, dtype)
