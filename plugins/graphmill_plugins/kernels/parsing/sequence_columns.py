"""Parse the requested feature lists of a batch of `SequenceExample`s.

Semantics: tensorflow/core/util/example_proto_fast_parsing.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from graphmill.errors import DataLossError
from graphmill.spi.protos import iterate_fields
from graphmill_plugins.kernels.parsing._batch_scan import (
    concatenated_rows,
    decoded_rows,
    entry_at,
    field_at,
    list_at,
)
from graphmill_plugins.kernels.parsing._entry_headers import FIRST
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
    from graphmill_plugins.kernels.parsing._batch_scan import Cell, FeatureRows


class Steps(NamedTuple):
    """The values of a feature list in a batch of examples.

    Attributes:
        rows: the values of each step, for the concatenated steps of all examples.
        lengths: the number of steps of each example.
        missing: which examples lack the list.
    """

    rows: FeatureRows
    lengths: Value
    missing: list[bool]


class FeatureListScan:
    """Collects the requested feature lists of a batch of examples.

    Args:
        keys: of the requested lists.
        prefixes: the prefix of error messages about each example.
    """

    def __init__(self, keys: Iterable[bytes], prefixes: Sequence[str]) -> None:
        self._prefixes = prefixes
        self._cells: dict[bytes, list[list[Cell] | None]] = {
            key: [None] * len(prefixes) for key in keys
        }
        self._kinds: dict[bytes, set[DType]] = {key: set() for key in self._cells}
        self._headers: dict[bytes, dict[bytes, int]] = {key: {} for key in self._cells}
        self._header: dict[bytes, int] = {}
        self._spans: dict[tuple[bytes, int], tuple[bytes, list[tuple[int, int]]]] = {}

    def add(self, row: int, content: bytes, start: int, end: int) -> None:
        """Collect the lists of the `FeatureLists` message in `content[start:end]`.

        Raises:
            DataLossError: the message is malformed.
        """
        offset = start
        while offset < end and (entry := _plain_entry(content, offset, end)) is not None:
            key, first, offset = entry
            self._add_list(row, key, content, [(first, offset)])
        for number, wire_type, _, _, first, last in iterate_fields(content, offset, end):
            if number != 1:
                continue
            check_message(wire_type)
            key, spans = parse_entry(content, first, last)
            self._add_list(row, key, content, spans)

    def _add_list(self, row: int, key: bytes, content: bytes, spans: list[tuple[int, int]]) -> None:
        if key in self._cells:
            self._spans[key, row] = content, spans
            self._cells[key][row] = [
                cell for span in spans for cell in self._steps(key, content, *span)
            ]

    def _steps(self, key: bytes, content: bytes, start: int, end: int) -> list[Cell]:
        cells: list[Cell] = []
        kinds, headers = self._kinds[key], self._headers[key]
        offset, header = start, self._header.get(key, 0)
        try:
            while offset < end:
                size = headers.get(content[offset : offset + header])
                if size is not None and offset + size <= end:
                    cells.append(content[offset + header : offset + size])
                    offset += size
                    continue
                first, last = field_at(content, offset, FIRST)
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
                    self._header[key] = header = begin - offset
                    headers[content[offset:begin]] = last - offset
                offset = last
        except (IndexError, DataLossError):
            pass  # parsing field by field raises the error
        if offset < end:
            features = parse_steps(content, [(offset, end)])
            cells += [feature if feature.dtype else None for feature in features]
        return cells

    def column(self, key: bytes, dtype: DType) -> Steps:
        """Return the values of a feature list.

        Raises:
            InvalidArgumentError: an example has values of another type, or malformed ones.
        """
        lists = self._cells[key]
        rows = None
        if self._kinds[key] <= {dtype}:
            rows = decoded_rows([cell for cells in lists for cell in cells or ()], dtype)
        if rows is None:
            rows = self._parsed_rows(key, dtype)
        lengths = np.array([len(cells or ()) for cells in lists], np.int64)
        return Steps(rows, lengths, [cells is None for cells in lists])

    def _parsed_rows(self, key: bytes, dtype: DType) -> FeatureRows:
        parts = []
        for row, prefix in enumerate(self._prefixes):
            content, spans = self._spans.get((key, row), (b"", []))
            parts += [values_of(step, dtype, key, prefix) for step in parse_steps(content, spans)]
        return concatenated_rows(parts, dtype)


def _plain_entry(content: bytes, offset: int, end: int) -> tuple[bytes, int, int] | None:
    """Return key, start and end of an entry; None for what is parsed generally."""
    try:
        return entry_at(content, offset, end)
    except (IndexError, DataLossError):  # it is cut off: the general parser raises the error
        return None
