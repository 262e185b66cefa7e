"""Records of CSV without quotes: the fields of all of them are parts of one text.

Columns of decimal numbers are parsed in place; other fields are extracted on request.
"""

from __future__ import annotations

from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill_plugins.kernels.packed_strings import PackedStrings
from graphmill_plugins.kernels.parsing.number import decimal_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import Value


class PlainRecords:
    """Records of one number of fields.

    Args:
        text: the records, joined with the delimiter.
        delimiter: a single byte.
        width: the number of fields of a record.
        columns: the selected columns.
    """

    def __init__(self, text: bytes, delimiter: bytes, width: int, columns: Sequence[int]) -> None:
        self._text, self._delimiter = text, delimiter
        self._width, self._columns = width, columns

    @cached_property
    def fields(self) -> list[list[bytes]]:
        """The fields of each selected column."""
        flat = self._text.split(self._delimiter)
        return [flat[column :: self._width] for column in self._columns]

    def decimal_columns(self, types: Sequence[np.dtype[Any]]) -> dict[int, Value]:
        """Return by index the columns of numbers in which each field is a plain decimal.

        Those of one type are parsed in one call.
        """
        by_type: dict[np.dtype[Any], list[int]] = {}
        for index, dtype in enumerate(types):
            if dtype.kind != "O":
                by_type.setdefault(dtype, []).append(index)
        columns: dict[int, Value] = {}
        for dtype, indices in by_type.items():
            chosen = [self._columns[index] for index in indices]
            starts, sizes = (part.T[chosen].ravel() for part in self._bounds)
            packed = PackedStrings.within(self._text, starts, sizes)
            parts = [part.reshape(len(indices), -1) for part in decimal_numbers(packed, dtype)]
            columns |= {
                index: numbers
                for index, numbers, is_valid in zip(indices, *parts, strict=True)
                if is_valid.all()
            }
        return columns

    @cached_property
    def _bounds(self) -> tuple[Any, Any]:
        """The start and the size of each field in the text, with a row for each record."""
        delimiters = np.flatnonzero(np.frombuffer(self._text, np.uint8) == self._delimiter[0])
        starts = np.zeros(len(delimiters) + 1, np.int64)
        np.add(delimiters, 1, out=starts[1:])
        sizes = np.append(delimiters, len(self._text)) - starts
        return starts.reshape(-1, self._width), sizes.reshape(-1, self._width)


def plain_records(
    records: list[bytes], delimiter: bytes, use_quotes: bool, columns: list[int], count: int
) -> PlainRecords | None:
    """Return records without quotes and line ends; None for others, or of different widths.

    Without selected columns, `count` is the number of their fields.
    """
    text = delimiter.join(records)
    if b"\n" in text or b"\r" in text or (use_quotes and b'"' in text) or b"" in records:
        return None
    delimiter_counts = set(map(bytes.count, records, repeat(delimiter)))
    if len(delimiter_counts) != 1:
        return None
    width = delimiter_counts.pop() + 1
    selected = columns or range(width)
    if len(selected) != count or max(selected, default=0) >= width:
        return None
    return PlainRecords(text, delimiter, width, selected)
