"""Parse the requested features of a batch of `Example`s, column by column.

The values of an entry with a known header (`_entry_headers`) are a slice of the bytes; the slices
of all examples are decoded in one call. Entries that are malformed, or encoded in an unusual way,
are parsed field by field (`_example`).

Semantics: tensorflow/core/util/example_proto_fast_parsing.cc, which ignores the values of features
that are not requested, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import numpy as np
from google.protobuf.message import DecodeError

from graphmill import dtypes
from graphmill.errors import DataLossError, InvalidArgumentError
from graphmill.spi.kernels import cancellable, check_cancelled
from graphmill.spi.protos import LENGTH, iterate_fields, read_varint
from graphmill_plugins.kernels._strings import string_array
from graphmill_plugins.kernels.parsing._entry_headers import FIRST, KINDS, SECOND
from graphmill_plugins.kernels.parsing._example import (
    NUMBERS,
    Feature,
    check_message,
    packed_integers,
    parse_features,
    values_of,
)
from graphmill_plugins.kernels.parsing._layouts import floats_of, small_integers_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import Value
    from graphmill_plugins.kernels.parsing._entry_headers import Headers
    from graphmill_plugins.kernels.parsing._layouts import Layout

    Cell = bytes | Feature | None
    """A feature of an example: the bytes of its list, an undecoded feature, or None if missing."""

_T = TypeVar("_T")

_MAX_LENGTHS: Final = 4  # lengths of the examples of a batch, for layouts to be worthwhile
_UNCHECKED: Final = 1024  # rows between two checks whether the step was cancelled
_OFFSETS: Final = {kind: offset for offset, kind in enumerate(KINDS)}
_MANY_LISTS: Final = 192  # lists of strings from which on a call of protobuf is worthwhile
_LARGER_HEADERS: Final = np.array([1 << 7 * size for size in range(1, 5)], np.int64)
"""The sizes of strings from which on tag and size take one more byte."""
_HEADER_SIZES: Final = np.arange(2, 7)
DECODERS: Final = {dtypes.float32: floats_of, dtypes.int64: small_integers_of}
"""The function that decodes a table of bytes, by type; it returns None for longer varints."""
_LISTS: Final = {number << 3 | LENGTH: dtype for number, dtype in NUMBERS.items()}


def checked(items: Sequence[_T]) -> Iterable[_T]:
    """Return rows to iterate over; if they are many, the loop ends with the step.

    Raises:
        CancelledError: the step was cancelled.
    """
    return cancellable(items, _UNCHECKED) if len(items) > _UNCHECKED else items


class FeatureRows(NamedTuple):
    """The values of a feature in a batch of examples.

    Attributes:
        values: the values of all examples, concatenated.
        counts: the number of values of each example.
        missing: mask of the examples without the feature; None if all have it.
        count_of_each: the number of values of each example if it is known to be the same for all.
    """

    values: Value
    counts: Value
    missing: Value | None
    count_of_each: int | None = None

    def split(self, columns: int) -> list[FeatureRows]:
        """Return the rows of several columns that were decoded together, of equal batch sizes."""
        table = self.counts.reshape(columns, -1)
        ends = np.cumsum(table.sum(axis=1)).tolist()
        missing: list[Any] = [None] * columns
        if self.missing is not None:
            masks = self.missing.reshape(columns, -1)
            missing = [mask if mask.any() else None for mask in masks]
        same: list[Any] = [None] * columns
        if table.shape[1]:
            are_equal = (table == table[:, :1]).all(axis=1).tolist()
            firsts = table[:, 0].tolist()
            same = [n if is_equal else None for n, is_equal in zip(firsts, are_equal, strict=True)]
        starts = [0, *ends[:-1]]
        parts = zip(starts, ends, table, missing, same, strict=True)
        return [FeatureRows(self.values[start:end], *rest) for start, end, *rest in parts]


def _split(values: Value, counts: Sequence[tuple[int, int]]) -> Iterator[tuple[int, FeatureRows]]:
    """Iterate over the slots and rows of columns in a table with a row for each example."""
    size = len(values)
    columns = np.ascontiguousarray(values.T)
    counts_of: dict[int, Value] = {}
    start = 0
    for slot, count in counts:
        each = counts_of.get(count)
        if each is None:
            each = counts_of[count] = np.full(size, count, np.int64)
        own = columns[start] if count == 1 else values[:, start : start + count].reshape(-1)
        yield slot, FeatureRows(own, each, None, count)
        start += count


class _Group(NamedTuple):
    """Examples with one layout: their indices, their contents and the table of their bytes."""

    layout: Layout
    rows: list[int]
    contents: list[bytes]
    table: Value


class Scan:
    """Collects the requested features of a batch of examples.

    Args:
        headers: the known headers of entries, with the keys of the requested features.
        prefixes: the prefix of error messages about each example.
        what: the name of an example in error messages.
    """

    def __init__(self, headers: Headers, prefixes: Sequence[str], what: str) -> None:
        self._headers = headers
        self._prefixes = prefixes
        self._what = what
        # For each slot its cells, or None as long as it has no values.
        self._cells: list[list[Cell] | None] = [None] * (len(headers.slots) * len(KINDS))
        # The slots that are decoded already; their keys have values of no other type.
        self._decoded: dict[int, FeatureRows] = {}
        self._found: list[dict[bytes, Feature]] | None = None
        self._contents: list[tuple[int, bytes, int, int]] = []
        # Slot, start and end of each value of the last example, if all its headers are known.
        self._entries: list[tuple[int | None, int, int]] | None = None

    def add_examples(self, contents: Sequence[bytes]) -> None:
        """Collect the features of the serialized `Example`s of all rows.

        Raises:
            InvalidArgumentError: the bytes of one are malformed.
        """
        by_length: dict[int, list[int]] = {}
        for row, content in enumerate(checked(contents)):
            by_length.setdefault(len(content), []).append(row)
        are_few = len(by_length) <= _MAX_LENGTHS
        groups: list[_Group] = []
        for length, rows in by_length.items():
            layout = self._headers.layouts.get(length)
            if not are_few and len(rows) * _MAX_LENGTHS < len(contents):
                layout = None  # comparing few examples with a layout takes longer than parsing them
            elif layout is None:
                row, *rows = rows
                layout = self._add_new_layout(row, contents[row])
            if layout is not None and rows:
                rows = self._add_by_layout(layout, rows, contents, groups)
            for row in checked(rows):
                self.add_example(row, contents[row])
        if sum(len(group.rows) for group in groups) == len(contents):
            self._decode_numbers(groups)
        for group in groups:
            self._add_cells(group)

    def _add_by_layout(
        self, layout: Layout, rows: list[int], contents: Sequence[bytes], groups: list[_Group]
    ) -> list[int]:
        """Add the rows that have a layout to the groups; return the other rows."""
        candidates = [contents[row] for row in rows]
        table, matches = layout.rows_of(candidates)
        others: list[int] = []
        if not all(matches):
            others = [row for row, matches_it in zip(rows, matches, strict=True) if not matches_it]
            rows = [row for row, matches_it in zip(rows, matches, strict=True) if matches_it]
            candidates = [contents[row] for row in rows]
            table = table[matches]
        groups.append(_Group(layout, rows, candidates, table))
        self._contents += [
            (row, content, layout.start, len(content))
            for row, content in zip(rows, candidates, strict=True)
        ]
        return others

    def _decode_numbers(self, groups: list[_Group]) -> None:
        """Decode the numbers of all groups of a batch at once, if they have the same columns."""
        lengths = tuple(len(group.layout.expected) for group in groups)
        tables = [(group.rows, group.table) for group in groups]
        size = len(self._prefixes)
        for dtype, columns in self._headers.number_columns(lengths).items():
            if columns is None:
                continue
            values = DECODERS[dtype](columns.gathered(tables, size))
            if values is not None:
                self._decoded.update(_split(values, columns.counts))

    def _add_cells(self, group: _Group) -> None:
        """Collect the features of a group that are not decoded yet."""
        is_whole_batch = len(group.rows) == len(self._prefixes)
        for slot, start, end in group.layout.spans:
            if slot in self._decoded:
                continue
            values: list[Cell] = [content[start:end] for content in checked(group.contents)]
            if is_whole_batch:
                self._cells[slot] = values
                continue
            cells = self._cells_of(slot)
            for row, value in zip(group.rows, values, strict=True):
                cells[row] = value

    def _add_new_layout(self, row: int, content: bytes) -> Layout | None:
        """Collect the features of an example, and return its layout if it has a simple one."""
        before = len(self._contents)
        self.add_example(row, content)
        if len(self._contents) != before + 1:  # not one `Features` message
            return None
        _, _, start, end = self._contents[before]
        if self._entries is None or end != len(content):
            return None
        return self._headers.add_layout(content, start, self._entries)

    def add_example(self, row: int, content: bytes) -> None:
        """Collect the features of a serialized `Example`.

        Raises:
            InvalidArgumentError: the bytes are malformed.
        """
        end = len(content)
        try:
            if end > 1 and content[0] == FIRST:
                size, start = content[1], 2
                if size >= 128:
                    size, start = read_varint(content, 1, end)
                if start + size == end:  # the message has no other fields
                    self.add(row, content, start, end)
                    return
            for field in iterate_fields(content, 0, end):
                if field.number == 1 and check_message(field.wire_type):
                    self.add(row, content, field.start, field.end)
        except DataLossError as error:
            raise InvalidArgumentError(
                f"{self._prefixes[row]}Could not parse {self._what} input: {error.message}"
            ) from error

    def add(self, row: int, content: bytes, start: int, end: int) -> None:
        """Collect the features of the `Features` message in `content[start:end]`.

        Raises:
            DataLossError: the message is malformed.
        """
        self._contents.append((row, content, start, end))
        lookup, all_cells = self._headers.entries.get, self._cells
        entries: list[tuple[int | None, int, int]] | None = []
        offset = start
        while offset < end:
            # Guess the size of the header, assuming that all sizes in it take one byte, or all two.
            try:
                if content[offset + 1] < 128:
                    length = content[offset + 3] + 8
                    if content[offset + length - 2] != FIRST and content[offset + length - 1]:
                        length += 2  # tag and size of packed numbers
                else:
                    length = content[offset + 4] + 11
                    if content[offset + length - 3] != FIRST:
                        length += 3
            except IndexError:
                length = 0
            entry = lookup(content[offset : offset + length])
            if entry is None:
                offset = self._add_entry(row, content, offset, end, length)
                entries = None
                continue
            slot, size = entry
            if entries is not None:
                entries.append((slot, offset + length, offset + size))
            if slot is not None:
                cells = all_cells[slot]
                if cells is None:
                    cells = self._cells_of(slot)
                cells[row] = content[offset + length : offset + size]
            offset += size
        if offset > end:  # an entry exceeds the message: raise the error that names it
            parse_features(content, start, end, {}, self._headers.slots)
        self._entries = entries

    def _add_entry(self, row: int, content: bytes, offset: int, end: int, length: int) -> int:
        """Collect an entry with an unknown header, expected to have this length; return its end."""
        try:
            entry = entry_at(content, offset, end)
            if entry is None:
                return self._parse_entries(row, content, offset, end)
            key, start, last = entry
            slot = self._headers.slots.get(key)
            if slot is None:
                if offset + length >= start:  # otherwise the bytes do not contain the whole key
                    self._headers.add(content[offset : offset + length], None, last - offset)
                return last
            kind, first, cell = list_at(content, start, last)
        except (IndexError, DataLossError):
            return self._parse_entries(row, content, offset, end)
        if kind is None:
            return self._parse_entries(row, content, offset, last)
        slot += KINDS.index(kind)
        self._cells_of(slot)[row] = cell
        if first - offset == length:
            self._headers.add(content[offset:first], slot, last - offset)
        return last

    def _parse_entries(self, row: int, content: bytes, offset: int, end: int) -> int:
        features: dict[bytes, Feature] = {}
        slots = self._headers.slots
        parse_features(content, offset, end, features, slots)
        for key, feature in features.items():
            first = slots[key]
            for slot in range(first, first + len(KINDS)):
                self._cells_of(slot)[row] = None
            self._cells_of(first)[row] = feature if feature.dtype else None
        return end

    def columns(self, features: Sequence[tuple[bytes, DType]]) -> list[FeatureRows]:
        """Return the values of features, given by key and type.

        The features of one type are decoded together, as each NumPy call costs as much as decoding
        many values.

        Raises:
            InvalidArgumentError: an example has values of another type, or malformed ones.
        """
        slots, decoded = self._headers.slots, self._decoded
        by_index: dict[int, FeatureRows] = {}
        if decoded:
            for index, (key, dtype) in enumerate(features):
                rows = decoded.get(slots[key] + _OFFSETS[dtype])
                if rows is not None:
                    by_index[index] = rows
        for dtype in dict.fromkeys(dtype for _, dtype in features):
            plain = [
                index
                for index, (key, kind) in enumerate(features)
                if kind is dtype and index not in by_index and self._has_only(key, dtype)
            ]
            cells = [
                cell
                for i in plain
                for cell in self._cells_of(slots[features[i][0]] + _OFFSETS[dtype])
            ]
            whole = decoded_rows(cells, dtype) if cells else None
            if whole is not None:
                by_index.update(zip(plain, whole.split(len(plain)), strict=True))
        return [
            by_index[i] if i in by_index else self.column(key, dtype)
            for i, (key, dtype) in enumerate(features)
        ]

    def _has_only(self, key: bytes, dtype: DType) -> bool:
        """Return whether no example has undecoded values or values of another type."""
        first = self._headers.slots[key]
        for slot, kind in enumerate(KINDS, first):
            cells = self._cells[slot]
            if kind is dtype:
                continue
            if slot in self._decoded or (cells is not None and cells.count(None) != len(cells)):
                return False
        return True

    def _cells_of(self, slot: int) -> list[Cell]:
        """Return the cells of a slot, to be filled."""
        cells = self._cells[slot]
        if cells is None:
            cells = self._cells[slot] = [None] * len(self._prefixes)
        return cells

    def column(self, key: bytes, dtype: DType) -> FeatureRows:
        """Return the values of a feature.

        Raises:
            InvalidArgumentError: an example has values of another type, or malformed ones.
        """
        slot = self._headers.slots[key] + _OFFSETS[dtype]
        if slot in self._decoded:
            return self._decoded[slot]
        if self._has_only(key, dtype):
            whole = decoded_rows(self._cells_of(slot), dtype)
            if whole is not None:
                return whole
        return concatenated_rows(
            [
                values_of(features.get(key), dtype, key, prefix)
                for features, prefix in zip(checked(self._features()), self._prefixes, strict=True)
            ],
            dtype,
        )

    def _features(self) -> list[dict[bytes, Feature]]:
        """Return the features of each example, parsed field by field."""
        if self._found is None:
            self._found = [{} for _ in self._prefixes]
            for row, content, start, end in checked(self._contents):
                parse_features(content, start, end, self._found[row], self._headers.slots)
        return self._found


def field_at(content: bytes, offset: int, tag: int) -> tuple[int, int]:
    """Return start and end of the field at a position; zeros if it has another tag."""
    if content[offset] != tag:
        return 0, 0
    size = content[offset + 1]
    if size < 128:
        return offset + 2, offset + 2 + size
    following = content[offset + 2]
    if following < 128:
        start = offset + 3
        return start, start + (size & 0x7F | following << 7)
    size, start = read_varint(content, offset + 1, len(content))
    return start, start + size


def entry_at(content: bytes, offset: int, end: int) -> tuple[bytes, int, int] | None:
    """Return the key of an entry, and start and end of its value; None if it has another layout."""
    first, last = field_at(content, offset, FIRST)
    if not first or last > end:
        return None
    key_start, key_end = field_at(content, first, FIRST)
    if not key_start or key_end >= last:
        return None
    start, value_end = field_at(content, key_end, SECOND)
    if not start or value_end != last:
        return None
    return content[key_start:key_end], start, last


def list_at(content: bytes, start: int, end: int) -> tuple[DType | None, int, bytes]:
    """Return the type of a feature's list, the start of its values, and their bytes.

    The type is None if the feature is not a single list. Strings are preceded by tag and length.
    """
    tag = content[start] if start < end else 0
    kind = _LISTS.get(tag)
    if kind is None:
        return None, start, b""
    first, last = field_at(content, start, tag)
    if last != end:
        return None, start, b""
    if first < end and kind is not dtypes.string:
        first, last = field_at(content, first, FIRST)
        if last != end:
            return None, start, b""
    return kind, first, content[first:end]


def decoded_rows(cells: Sequence[Cell], dtype: DType) -> FeatureRows | None:
    """Decode the values of all cells in one call; return None if a cell is not plain bytes."""
    if len(cells) > _UNCHECKED:
        check_cancelled()
    types = set(map(type, cells))
    missing = None
    present: Sequence[Any] = cells
    if type(None) in types:
        missing = np.array([cell is None for cell in cells])
        present = [cell for cell in cells if cell is not None]
        types.remove(type(None))
    if Feature in types:
        return None
    try:
        values, counts = _strings(present) if dtype is dtypes.string else _numbers(present, dtype)
    except (IndexError, DataLossError):
        return None
    if missing is not None:
        present_counts = counts
        counts = np.zeros(len(cells), np.int64)
        counts[~missing] = present_counts
    return FeatureRows(values, counts, missing)


def _strings(cells: Sequence[bytes]) -> tuple[Value, Value]:
    items = [
        cell[2:]
        for cell in cells
        if 1 < len(cell) < 130 and cell[1] == len(cell) - 2 and cell[0] == FIRST
    ]
    if len(items) == len(cells):  # each cell is one short string
        return string_array(items), np.ones(len(cells), np.int64)
    if len(cells) >= _MANY_LISTS:
        found = _strings_of_many(cells)
        if found is not None:
            return found
    items = []
    counts = []
    for cell in checked(cells):
        before, offset, end = len(items), 0, len(cell)
        while offset < end:
            size = cell[offset + 1]
            if size < 128 and cell[offset] == FIRST:  # inlined for speed
                start, offset = offset + 2, offset + 2 + size
            else:
                start, offset = field_at(cell, offset, FIRST)
            if not start or offset > end:
                raise DataLossError("a list of strings is malformed")
            items.append(cell[start:offset])
        counts.append(len(items) - before)
    return string_array(items), np.array(counts, np.int64)


def _strings_of_many(cells: Sequence[bytes]) -> tuple[Value, Value] | None:
    """Parse all lists of strings as one, which their concatenated bytes are.

    Return None if one is malformed or encoded in an unusual way. The encoded size of each string
    tells where the lists end: in total they are all bytes only if nothing else is among them.
    """
    from graphmill.spi.protos import proto  # most graphs parse no lists of strings

    content = b"".join(cells)
    try:
        items = list(proto.BytesList.FromString(content).value)
    except DecodeError:
        return None
    sizes = np.fromiter(map(len, items), np.int64, len(items))
    ends = np.zeros(len(items) + 1, np.int64)
    np.cumsum(sizes + _HEADER_SIZES[np.searchsorted(_LARGER_HEADERS, sizes, "right")], out=ends[1:])
    cell_ends = np.cumsum(np.fromiter(map(len, cells), np.int64, len(cells)))
    strings = ends.searchsorted(cell_ends)
    if ends[-1] != len(content) or (ends[strings] != cell_ends).any():
        return None
    return string_array(items), np.diff(strings, prepend=0)


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


def concatenated_rows(parts: Sequence[Value | None], dtype: DType) -> FeatureRows:
    """Return rows from the values of each example; None for a missing feature."""
    empty = np.zeros(0, dtype.as_numpy_dtype)
    present = [empty if part is None else part for part in parts]
    return FeatureRows(
        np.concatenate(present) if present else empty,
        np.array([len(part) for part in present], np.int64),
        np.array([part is None for part in parts], bool),
    )
