"""Read the requested features of many `Example`s at once, column by column.

If the header of an entry has been seen (`_entry_headers`), its values are a slice of the bytes, and
those of all examples are decoded together. Entries that are malformed, or written in another way
than serialisers do, are parsed field by field (`_example`).

Semantics: tensorflow/core/util/example_proto_fast_parsing.cc, which does not look at the values of
features that nobody asked for either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from graphmill import dtypes
from graphmill.errors import DataLossError, InvalidArgumentError
from graphmill.spi.protos import LENGTH, iterate_fields, read_varint
from graphmill_plugins.kernels._strings import string_array
from graphmill_plugins.kernels.parsing._entry_headers import KINDS
from graphmill_plugins.kernels.parsing._example import (
    NUMBERS,
    Feature,
    check_message,
    packed_integers,
    parse_features,
    values_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import Value
    from graphmill_plugins.kernels.parsing._entry_headers import Headers

    Cell = bytes | Feature | None
    """What an example has: packed numbers or strings with their lengths, anything else, nothing."""

FIRST: Final = 1 << 3 | LENGTH
_SECOND: Final = 2 << 3 | LENGTH
_LISTS: Final = {number << 3 | LENGTH: dtype for number, dtype in NUMBERS.items()}


class Rows(NamedTuple):
    """The values that some examples have of a feature.

    Attributes:
        values: of all examples, one after the other.
        counts: how many each example has.
        missing: which examples have none, not even an empty list; None if all have one.
    """

    values: Value
    counts: Value
    missing: Value | None


class Scan:
    """The features of some examples that were asked for.

    Args:
        headers: what is known of the headers of entries; it has the keys of the features.
        wheres: how messages begin that are about each example.
        what: the examples' name in messages.
    """

    def __init__(self, headers: Headers, wheres: Sequence[str], what: str) -> None:
        self._headers = headers
        self._wheres = wheres
        self._what = what
        count = len(wheres)
        self._cells: list[list[Cell]] = [
            [None] * count for _ in range(len(headers.slots) * len(KINDS))
        ]
        self._found: list[dict[bytes, Feature]] | None = None
        self._contents: list[tuple[int, bytes, int, int]] = []

    def add_example(self, row: int, content: bytes) -> None:
        """Take the features of the serialised `Example` of a row.

        Raises:
            InvalidArgumentError: the bytes are none.
        """
        end = len(content)
        try:
            if end > 1 and content[0] == FIRST:
                size, start = content[1], 2
                if size >= 128:
                    size, start = read_varint(content, 1, end)
                if start + size == end:  # there is nothing else
                    self.add(row, content, start, end)
                    return
            for field in iterate_fields(content, 0, end):
                if field.number == 1 and check_message(field.wire_type):
                    self.add(row, content, field.start, field.end)
        except DataLossError as error:
            raise InvalidArgumentError(
                f"{self._wheres[row]}Could not parse {self._what} input: {error.message}"
            ) from error

    def add(self, row: int, content: bytes, start: int, end: int) -> None:
        """Add the features of the `Features` message at a position.

        Raises:
            DataLossError: there is none.
        """
        self._contents.append((row, content, start, end))
        lookup, all_cells = self._headers.known.get, self._cells
        at = start
        while at < end:
            # The length of the header, if all sizes in it take a byte, or all of them two.
            try:
                if content[at + 1] < 128:
                    length = content[at + 3] + 8
                    if content[at + length - 2] != FIRST and content[at + length - 1]:
                        length += 2  # of a run of numbers
                else:
                    length = content[at + 4] + 11
                    if content[at + length - 3] != FIRST:
                        length += 3
            except IndexError:
                length = 0
            known = lookup(content[at : at + length])
            if known is None:
                at = self._learn(row, content, at, end, length)
                continue
            slot, size = known
            if slot is not None:
                all_cells[slot][row] = content[at + length : at + size]
            at += size
        if at > end:  # an entry that is longer than what is left: the walk says which
            parse_features(content, start, end, {}, self._headers.slots)

    def _learn(self, row: int, content: bytes, at: int, end: int, length: int) -> int:
        """Take an entry whose header is unknown, of this length perhaps; return its end."""
        try:
            entry = _entry(content, at, end)
            if entry is None:
                return self._walk(row, content, at, end)
            key, start, last = entry
            slot = self._headers.slots.get(key)
            if slot is None:
                if at + length >= start:  # else there may be another key behind these bytes
                    self._headers.remember(content[at : at + length], None, last - at)
                return last
            kind, first, cell = list_at(content, start, last)
        except (IndexError, DataLossError):
            return self._walk(row, content, at, end)
        if kind is None:
            return self._walk(row, content, at, last)
        slot += KINDS.index(kind)
        self._cells[slot][row] = cell
        if first - at == length:
            self._headers.remember(content[at:first], slot, last - at)
        return last

    def _walk(self, row: int, content: bytes, at: int, end: int) -> int:
        found: dict[bytes, Feature] = {}
        slots = self._headers.slots
        parse_features(content, at, end, found, slots)
        for key, feature in found.items():
            first = slots[key]
            for slot in range(first, first + len(KINDS)):
                self._cells[slot][row] = None
            self._cells[first][row] = feature if feature.dtype else None
        return end

    def column(self, key: bytes, dtype: DType) -> Rows:
        """Return the values of a feature.

        Raises:
            InvalidArgumentError: an example has some of another type, or malformed ones.
        """
        first, count = self._headers.slots[key], len(self._wheres)
        wanted = first + KINDS.index(dtype)
        others = (slot for slot in range(first, first + len(KINDS)) if slot != wanted)
        if all(self._cells[slot].count(None) == count for slot in others):
            whole = together(self._cells[wanted], dtype)
            if whole is not None:
                return whole
        return one_by_one(
            [
                values_of(features.get(key), dtype, key, where)
                for features, where in zip(self._features(), self._wheres, strict=True)
            ],
            dtype,
        )

    def _features(self) -> list[dict[bytes, Feature]]:
        """Return the features of each example, walked field by field."""
        if self._found is None:
            self._found = [{} for _ in self._wheres]
            for row, content, start, end in self._contents:
                parse_features(content, start, end, self._found[row], self._headers.slots)
        return self._found


def part_at(content: bytes, at: int, tag: int) -> tuple[int, int]:
    """Return start and end of the field with a tag; zeros if another field is there."""
    if content[at] != tag:
        return 0, 0
    size = content[at + 1]
    if size < 128:
        return at + 2, at + 2 + size
    size, start = read_varint(content, at + 1, len(content))
    return start, start + size


def _entry(content: bytes, at: int, end: int) -> tuple[bytes, int, int] | None:
    """Return the key of an entry, and start and end of its value, which ends it."""
    first, last = part_at(content, at, FIRST)
    if not first or last > end:
        return None
    key_start, key_end = part_at(content, first, FIRST)
    if not key_start or key_end >= last:
        return None
    start, value_end = part_at(content, key_end, _SECOND)
    if not start or value_end != last:
        return None
    return content[key_start:key_end], start, last


def list_at(content: bytes, start: int, end: int) -> tuple[DType | None, int, bytes]:
    """Return the kind of a feature, where its values begin, and their bytes.

    The kind is None where that is not all that stands there. Before each string is its length.
    """
    tag = content[start] if start < end else 0
    kind = _LISTS.get(tag)
    if kind is None:
        return None, start, b""
    first, last = part_at(content, start, tag)
    if last != end:
        return None, start, b""
    if first < end and kind is not dtypes.string:
        first, last = part_at(content, first, FIRST)
        if last != end:
            return None, start, b""
    return kind, first, content[first:end]


def together(cells: Sequence[Cell], dtype: DType) -> Rows | None:
    """Return the values of all cells, decoded at once; None where that cannot be."""
    types = set(map(type, cells))
    missing = None
    there: Sequence[Any] = cells
    if type(None) in types:
        missing = np.array([cell is None for cell in cells])
        there = [cell for cell in cells if cell is not None]
        types.remove(type(None))
    if Feature in types:
        return None
    try:
        values, counts = _strings(there) if dtype is dtypes.string else _numbers(there, dtype)
    except (IndexError, DataLossError):
        return None
    if missing is not None:
        among = counts
        counts = np.zeros(len(cells), np.int64)
        counts[~missing] = among
    return Rows(values, counts, missing)


def _strings(cells: Sequence[bytes]) -> tuple[Value, Value]:
    items = [
        cell[2:]
        for cell in cells
        if 1 < len(cell) < 130 and cell[1] == len(cell) - 2 and cell[0] == FIRST
    ]
    if len(items) == len(cells):  # each is one, and short
        return string_array(items), np.ones(len(cells), np.int64)
    items = []
    counts = []
    for cell in cells:
        before, at, end = len(items), 0, len(cell)
        while at < end:
            size = cell[at + 1]
            if size < 128 and cell[at] == FIRST:  # no call for a short one
                start, at = at + 2, at + 2 + size
            else:
                start, at = part_at(cell, at, FIRST)
            if not start or at > end:
                raise DataLossError("a list of strings is malformed")
            items.append(cell[start:at])
        counts.append(len(items) - before)
    return string_array(items), np.array(counts, np.int64)


def _numbers(cells: Sequence[bytes], dtype: DType) -> tuple[Value, Value]:
    sizes = np.fromiter(map(len, cells), np.int64, len(cells))
    content = b"".join(cells)
    if dtype is dtypes.float32:
        if (sizes & 3).any():
            raise DataLossError("a list of floats is malformed")
        return np.frombuffer(content, "<f4").astype(np.float32), sizes >> 2
    if len(cells) == 1:
        values = packed_integers(content, 0, len(content))
        return values, np.array([len(values)], np.int64)
    ends = np.cumsum(sizes)
    is_last = np.frombuffer(content, np.int8) >= 0
    before = np.zeros(len(content) + 1, np.int64)
    np.cumsum(is_last, out=before[1:])
    if not is_last[ends[sizes > 0] - 1].all():
        raise DataLossError("a list of integers ends within a number")
    return packed_integers(content, 0, len(content)), before[ends] - before[ends - sizes]


def one_by_one(parts: Sequence[Value | None], dtype: DType) -> Rows:
    empty = np.zeros(0, dtype.as_numpy_dtype)
    there = [empty if part is None else part for part in parts]
    return Rows(
        np.concatenate(there) if there else empty,
        np.array([len(part) for part in there], np.int64),
        np.array([part is None for part in parts], bool),
    )
