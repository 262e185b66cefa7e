"""Parse the requested feature lists of a batch of `SequenceExample`s.

Semantics: tensorflow/core/util/example_proto_fast_parsing.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from graphmill import dtypes
from graphmill.errors import DataLossError, InvalidArgumentError
from graphmill.spi.protos import iterate_fields
from graphmill_plugins.kernels.parsing._batch_scan import (
    DECODERS,
    FeatureRows,
    checked,
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
    from graphmill_plugins.kernels.parsing._batch_scan import Cell


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


class _FeatureList(NamedTuple):
    """A feature list of an example: its bytes, and start and end of each of its parts in them."""

    content: bytes
    spans: list[tuple[int, int]]


class FeatureListScan:
    """Collects the requested feature lists of a batch of examples.

    Args:
        keys: those of the requested lists.
        prefixes: the prefix of error messages about each example.
    """

    def __init__(self, keys: Iterable[bytes], prefixes: Sequence[str]) -> None:
        self._prefixes = prefixes
        self._lists: dict[bytes, list[_FeatureList | None]] = {
            key: [None] * len(prefixes) for key in keys
        }

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
        lists = self._lists.get(key)
        if lists is None:
            return
        replaced = lists[row]
        if replaced is not None:
            parse_steps(*replaced)  # it must be valid, too
        lists[row] = _FeatureList(content, spans)

    def column(self, key: bytes, dtype: DType) -> Steps:
        """Return the values of a feature list.

        Raises:
            InvalidArgumentError: an example has values of another type, or malformed ones.
        """
        lists = self._lists[key]
        missing = [one is None for one in lists]
        equal = _equal_steps(lists, dtype)
        if equal is not None:
            return Steps(*equal, missing)
        cells = self._cells(lists)
        rows = None
        if cells.kinds <= {dtype}:
            rows = decoded_rows([cell for steps in cells.steps for cell in steps], dtype)
        if rows is None:
            rows = self._parsed_rows(key, dtype)
        lengths = np.array(list(map(len, cells.steps)), np.int64)
        return Steps(rows, lengths, missing)

    def _cells(self, lists: list[_FeatureList | None]) -> _Cells:
        cells = _Cells()
        for one, prefix in zip(checked(lists), self._prefixes, strict=True):
            try:
                cells.add(one)
            except DataLossError as error:
                raise InvalidArgumentError(
                    f"{prefix}Could not parse SequenceExample input: {error.message}"
                ) from error
        return cells

    def _parsed_rows(self, key: bytes, dtype: DType) -> FeatureRows:
        parts = []
        for one, prefix in zip(checked(self._lists[key]), self._prefixes, strict=True):
            features = [] if one is None else parse_steps(*one)
            parts += [values_of(feature, dtype, key, prefix) for feature in features]
        return concatenated_rows(parts, dtype)


class _Cells:
    """The undecoded steps of a feature list.

    Attributes:
        steps: the steps of each example.
        kinds: the types of their lists, as far as they are plain bytes.
    """

    def __init__(self) -> None:
        self.steps: list[list[Cell]] = []
        self.kinds: set[DType] = set()
        self._sizes: dict[bytes, int] = {}  # of the steps with each header
        self._header = 0  # the size of the last header

    def add(self, feature_list: _FeatureList | None) -> None:
        """Add the steps of an example.

        Raises:
            DataLossError: the list is malformed.
        """
        cells: list[Cell] = []
        self.steps.append(cells)
        if feature_list is not None:
            for start, end in feature_list.spans:
                self._add_span(cells, feature_list.content, start, end)

    def _add_span(self, cells: list[Cell], content: bytes, start: int, end: int) -> None:
        offset, header, sizes = start, self._header, self._sizes
        try:
            while offset < end:
                size = sizes.get(content[offset : offset + header])
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
                    self.kinds.add(kind)
                    cells.append(cell)
                    self._header = header = begin - offset
                    sizes[content[offset:begin]] = last - offset
                offset = last
        except (IndexError, DataLossError):
            pass  # parsing field by field raises the error
        if offset < end:
            features = parse_steps(content, [(offset, end)])
            cells += [feature if feature.dtype else None for feature in features]


def _equal_steps(
    lists: Sequence[_FeatureList | None], dtype: DType
) -> tuple[FeatureRows, Value] | None:
    """Decode a batch at once if all its steps have the header of the first one, and thus its size.

    Return the values of all steps, and the number of steps of each example; None if the headers
    differ, or the values are not numbers of a fixed width.
    """
    decode = DECODERS.get(dtype)
    if decode is None or any(one is not None and len(one.spans) != 1 for one in lists):
        return None
    parts = [b"" if one is None else one.content[slice(*one.spans[0])] for one in lists]
    content = b"".join(parts)
    header, size = _first_step(content, dtype)
    if header == size or any(len(part) % size for part in parts):
        return None
    table = np.frombuffer(content, np.uint8).reshape(-1, size)
    if (table[:, :header] != table[0, :header]).any():
        return None
    values = decode(table[:, header:].copy())
    if values is None:
        return None
    lengths = np.array([len(part) // size for part in parts], np.int64)
    count = values.shape[1]
    rows = FeatureRows(values.reshape(-1), np.full(len(table), count, np.int64), None, count)
    return rows, lengths


def _first_step(content: bytes, dtype: DType) -> tuple[int, int]:
    """Return the sizes of the header of the first step and of the step; zeros if it is not plain.

    Floats take four bytes each.
    """
    try:
        first, last = field_at(content, 0, FIRST)
        kind, begin, cell = list_at(content, first, last)
    except (IndexError, DataLossError):
        return 0, 0
    is_plain = first and last <= len(content) and kind is dtype
    if not is_plain or (dtype is dtypes.float32 and len(cell) % 4):
        return 0, 0
    return begin, last


def _plain_entry(content: bytes, offset: int, end: int) -> tuple[bytes, int, int] | None:
    """Return key, start and end of an entry; None if it needs the general parser."""
    try:
        return entry_at(content, offset, end)
    except (IndexError, DataLossError):  # it is cut off: the general parser raises the error
        return None
