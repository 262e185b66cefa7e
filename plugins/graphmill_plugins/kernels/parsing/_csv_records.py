"""Records of CSV without line ends in them: the fields of all of them are parts of one text.

Columns of decimal numbers are parsed in place; other fields are extracted on request.
"""

from __future__ import annotations

from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill_plugins.kernels.packed_strings import PackedStrings
from graphmill_plugins.kernels.parsing.number import decimal_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphmill.spi import Value


_QUOTE: Final = 0x22
_LINE_FEED: Final = 0x0A
_MIN_QUOTED: Final = 8
"""The number of records with quotes from which on NumPy splits them faster."""


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

    def fields(self, indices: Iterable[int]) -> dict[int, list[bytes]]:
        """Return the fields of some of the selected columns, by index."""
        flat = self._text.split(self._delimiter)
        return {index: flat[self._columns[index] :: self._width] for index in indices}

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


def records_of_one_width(
    records: list[bytes], delimiter: bytes, use_quotes: bool, columns: list[int], count: int
) -> PlainRecords | None:
    """Return records without line ends; None for others, malformed ones, or of different widths.

    Without selected columns, `count` is the number of their fields.
    """
    text = delimiter.join(records)
    if b"\n" in text or b"\r" in text or b"" in records:
        return None
    if use_quotes and b'"' in text:
        return _without_quotes(records, text, delimiter, columns, count)
    delimiter_counts = set(map(bytes.count, records, repeat(delimiter)))
    if len(delimiter_counts) != 1:
        return None
    width = delimiter_counts.pop() + 1
    selected = _selected(width, columns, count)
    return None if selected is None else PlainRecords(text, delimiter, width, selected)


def _selected(width: int, columns: list[int], count: int) -> Sequence[int] | None:
    """Return the selected columns; None unless records have them."""
    selected = columns or range(width)
    return None if len(selected) != count or max(selected, default=0) >= width else selected


def _without_quotes(
    records: list[bytes], text: bytes, delimiter: bytes, columns: list[int], count: int
) -> PlainRecords | None:
    """Return records of which some fields are quoted; None if they are malformed or few.

    `text` has no line ends, so that they can take the place of the delimiters outside of quotes.
    """
    if len(records) < _MIN_QUOTED or delimiter == b'"':
        return None
    codes = np.frombuffer(delimiter + text + delimiter, np.uint8).copy()
    quotes = np.flatnonzero(codes == _QUOTE)
    before, after = codes[quotes[::2] - 1], codes[quotes[1::2] + 1]
    # A quote that opens follows a delimiter, and one that closes precedes one. Between a quote that
    # closes and one that opens there may be nothing: they stand for a quote in the field.
    is_doubled = after == _QUOTE
    are_placed = (is_doubled | (after == delimiter[0])).all()
    are_placed &= ((before == _QUOTE) | (before == delimiter[0])).all()
    if len(quotes) % 2 or not are_placed:
        return None
    delimiters = np.flatnonzero(codes == delimiter[0])
    delimiters = delimiters[np.searchsorted(quotes, delimiters) % 2 == 0]
    width, rest = divmod(len(delimiters) - 1, len(records))
    ends = np.cumsum(np.fromiter(map(len, records), np.int64, len(records)) + 1)
    if rest or not width or not np.array_equal(delimiters[width::width], ends):
        return None
    selected = _selected(width, columns, count)
    if selected is None:
        return None
    codes[delimiters] = _LINE_FEED
    is_kept = codes != _QUOTE
    is_kept[quotes[1::2][is_doubled]] = True
    return PlainRecords(codes[is_kept].tobytes()[1:-1], b"\n", width, selected)
