"""Split kernels: StringSplit, StringSplitV2, StringNGrams.

Semantics: tensorflow/core/kernels/string_split_op.cc, string_ngrams_op.cc.
"""

from __future__ import annotations

from functools import cached_property
from itertools import chain, pairwise, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphmill import errors
from graphmill.spi import kernel
from graphmill_plugins.kernels._strings import encode, scalar_bytes, string_array
from graphmill_plugins.kernels._support import POINTER_SIZE, check_size
from graphmill_plugins.kernels.packed_strings import PackedStrings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphmill.spi import Value

_MAX_SCALAR_SPLITS = 128  # number of strings up to which splitting one by one is faster
_MAX_JOINED_WIDTH = 16  # wider n-grams are joined row by row
_SPACE = b" \t\n\v\f\r"
_MIN_ROWS = 16  # of n-grams that are found by arrays
_SINGLE_BYTES = string_array([bytes((value,)) for value in range(256)])
_PART_SIZE = 64  # bytes: a string, a pointer to it, and its two indices


def _sparse(rows: Sequence[Sequence[bytes]]) -> tuple[Value, Value, Value]:
    """Return the indices, values and dense shape of a sparse tensor of ragged rows."""
    sizes = np.fromiter(map(len, rows), np.int64, len(rows))
    return _sparse_of(string_array(list(chain.from_iterable(rows))), sizes)


def _check_parts(count: int) -> None:
    """Check that a number of parts of strings fits into memory, before strings are split."""
    check_size((count,), "the list of parts", itemsize=_PART_SIZE)


def _count(items: Iterable[bytes], delimiters: bytes) -> int:
    """Return the maximum number of parts of strings if each byte of `delimiters` ends a part."""
    return sum(len(item) - len(item.translate(None, delimiters)) + 1 for item in items)


def _sparse_of(values: Value, sizes: Any) -> tuple[Value, Value, Value]:
    """Return the sparse tensor of values that are rows of these sizes; see `_sparse`."""
    indices = np.empty((len(values), 2), np.int64)
    indices[:, 0] = np.repeat(np.arange(len(sizes)), sizes)
    indices[:, 1] = np.arange(len(values)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return (
        indices,
        values,
        np.array([len(sizes), sizes.max(initial=0)], np.int64),
    )


def _split_at_byte(items: list[bytes], separator: bytes) -> tuple[Value, Value, Value]:
    """Split all strings at a separator of one byte in one call."""
    counts = map(bytes.count, items, repeat(separator))
    sizes = np.fromiter(counts, np.int64, len(items)) + 1
    _check_parts(int(sizes.sum()))
    parts = separator.join(items).split(separator) if items else []
    return _sparse_of(string_array(parts), sizes)


def _split_bytes(items: list[bytes]) -> tuple[Value, Value, Value]:
    """Split all strings into single bytes in one call."""
    sizes = np.fromiter(map(len, items), np.int64, len(items))
    return _sparse_of(_SINGLE_BYTES[np.frombuffer(b"".join(items), np.uint8)], sizes)


def _split_without_empty(items: list[bytes], delimiters: bytes) -> tuple[Value, Value, Value]:
    """Split all strings at each byte of `delimiters` in one call, without empty parts."""
    first = delimiters[:1]
    table = bytes.maketrans(delimiters, first * len(delimiters))
    packed = PackedStrings(items)
    text = first.join(items).translate(table)
    is_delimiter = np.frombuffer(text + first, np.uint8) == first[0]
    # A part starts at a byte that is no delimiter and is first or follows a delimiter.
    is_start = ~is_delimiter[:-1] & np.concatenate([[True], is_delimiter[:-2]])
    before = np.concatenate([[0], np.cumsum(is_start)])
    sizes = np.diff(before[np.append(packed.starts, len(text))])
    return _sparse_of(string_array(list(filter(None, text.split(first)))), sizes)


def _check(value: Value, delimiter: Value, name: str) -> bytes:
    if value.ndim != 1:
        raise errors.InvalidArgumentError(f"input must be a vector, got shape: {list(value.shape)}")
    if delimiter.ndim != 0:
        raise errors.InvalidArgumentError(
            f"{name} must be a scalar, got shape: {list(delimiter.shape)}"
        )
    return scalar_bytes(delimiter)


def _split_all(items: list[bytes], delimiters: bytes) -> list[list[bytes]]:
    """Split each string at each byte of `delimiters`."""
    first = delimiters[:1]
    if len(delimiters) > 1:
        table = bytes.maketrans(delimiters, first * len(delimiters))
        items = [item.translate(table) for item in items]
    return [item.split(first) if item else [] for item in items]


@kernel("StringSplit", host=True, dynamic_shape=True)
def string_split(value: Value, delimiter: Value, skip_empty: bool) -> tuple[Value, Value, Value]:
    """Split each string at each byte of `delimiter`, or into single bytes if it is empty."""
    delimiters = _check(value, delimiter, "delimiter")
    items = value.tolist()
    _check_parts(_count(items, delimiters) if delimiters else sum(map(len, items)))
    if not delimiters:
        return _split_bytes(items)
    if skip_empty and len(items) > _MAX_SCALAR_SPLITS:
        return _split_without_empty(items, delimiters)
    rows = _split_all(items, delimiters)
    return _sparse([list(filter(None, row)) for row in rows] if skip_empty else rows)


def _split_space(item: bytes, maxsplit: int) -> list[bytes]:
    """Split at runs of white space; after `maxsplit` parts append the rest, even if empty."""
    if maxsplit < 0:
        return item.split()
    if maxsplit == 0:
        return [item]
    parts = item.split(None, maxsplit)
    return [*parts, b""] if len(parts) == maxsplit else parts


@kernel("StringSplitV2", host=True, dynamic_shape=True)
def string_split_v2(value: Value, sep: Value, maxsplit: int) -> tuple[Value, Value, Value]:
    """Split each string at `sep`, or at runs of white space if it is empty."""
    separator = _check(value, sep, "sep")
    if len(separator) == 1 and maxsplit < 0:
        return _split_at_byte(value.tolist(), separator)
    count = sum(item.count(separator) + 1 for item in value.tolist()) if separator else 0
    _check_parts(count or _count(value.tolist(), _SPACE))
    if separator:
        return _sparse([item.split(separator, maxsplit) for item in value.tolist()])
    return _sparse([_split_space(item, maxsplit) for item in value.tolist()])


class _Rows:
    """Ragged rows of strings: the strings of all rows, and how many each row has."""

    def __init__(self, items: list[bytes], splits: Value) -> None:
        self.items = items
        self.splits = splits
        self.sizes = np.diff(splits)

    @cached_property
    def lists(self) -> list[list[bytes]]:
        """The strings of each row."""
        return [self.items[start:end] for start, end in pairwise(self.splits.tolist())]


class _NGrams(NamedTuple):
    separator: bytes
    left_pad: bytes
    right_pad: bytes
    pad_width: int

    def pad_of(self, width: int) -> int:
        """Return the number of pads at each end of a row for n-grams of a width."""
        return width - 1 if self.pad_width < 0 else min(self.pad_width, width - 1)

    def of(self, row: list[bytes], width: int) -> list[bytes]:
        """Return the n-grams of a width of a padded row."""
        pad = self.pad_of(width)
        if width > 2 * pad + len(row):
            return []
        return self._joined([*[self.left_pad] * pad, *row, *[self.right_pad] * pad], width)

    def of_rows(self, rows: _Rows, width: int) -> tuple[Value, Value]:
        """Return the n-grams of a width of all padded rows, and how many each row has.

        All rows are joined in one pass. The n-grams across two rows are left out afterwards, so
        rows are joined one by one where there would be more of these than of others.
        """
        pad = self.pad_of(width)
        num_rows, sizes = len(rows.sizes), rows.sizes + 2 * pad
        counts = np.maximum(sizes - width + 1, 0)
        total = int(sizes.sum())
        is_joined = num_rows >= _MIN_ROWS and width <= min(total, _MAX_JOINED_WIDTH)
        if not is_joined or (width - 1) * num_rows > total:
            found = chain.from_iterable(self.of(row, width) for row in rows.lists)
            return string_array(list(found)), counts
        padded = rows.items
        if pad:
            left, right = [self.left_pad] * pad, [self.right_pad] * pad
            padded = list(chain.from_iterable((*left, *row, *right) for row in rows.lists))
        joined = string_array(self._joined(padded, width))
        return joined[_positions(np.cumsum(sizes) - sizes, counts)], counts

    def _joined(self, padded: list[bytes], width: int) -> list[bytes]:
        """Return the n-grams of a list of at least `width` strings."""
        count = len(padded) - width + 1
        longest = min(width, count)  # how many n-grams have the same string
        size = longest * sum(map(len, padded)) + count * (width - 1) * len(self.separator)
        check_size((size + POINTER_SIZE * width * len(padded),), "the n-grams")
        # `zip` stops at the shortest list, which starts last.
        shifted = [padded[start:] for start in range(width)]
        return list(map(self.separator.join, zip(*shifted, strict=False)))


def _positions(starts: Value, counts: Value) -> Value:
    """Return `counts[i]` consecutive positions from `starts[i]` on, for each i."""
    ends = np.cumsum(counts)
    return np.repeat(starts - (ends - counts), counts) + np.arange(ends[-1] if len(ends) else 0)


def _count_of_rows(parts: Sequence[tuple[Value, Value]], num_rows: int) -> Value:
    return sum((counts for _, counts in parts), np.zeros(num_rows, np.int64))


def _by_row(parts: Sequence[tuple[Value, Value]], num_rows: int) -> tuple[Value, Value]:
    """Return the strings of several parts row by row, and how many each row has.

    Args:
        parts: the strings of all rows, and how many each row has.
        num_rows: the number of rows.
    """
    if len(parts) == 1:
        return parts[0]
    counts = _count_of_rows(parts, num_rows)
    starts = np.cumsum(counts) - counts
    result = np.empty(int(counts.sum()), np.object_)
    for strings, of_rows in parts:
        result[_positions(starts, of_rows)] = strings
        starts = starts + of_rows
    return result, counts


def _check_splits(splits: Any, size: int) -> None:
    if splits.ndim != 1 or (len(splits) and splits[0] != 0):
        raise errors.InvalidArgumentError(f"First split value must be 0, got {splits[:1].tolist()}")
    if (splits[1:] < splits[:-1]).any():
        raise errors.InvalidArgumentError(
            f"Invalid split values: {splits.tolist()} must not decrease"
        )
    if len(splits) and splits[-1] != size:
        raise errors.InvalidArgumentError(
            f"Last split value must be data size. Expected {size}, got {splits[-1]}"
        )


@kernel("StringNGrams", host=True, dynamic_shape=True)
def string_ngrams(
    data: Value,
    data_splits: Value,
    separator: str,
    ngram_widths: tuple[int, ...],
    left_pad: str,
    right_pad: str,
    pad_width: int,
    preserve_short_sequences: bool,
) -> tuple[Value, Value]:
    """Return the n-grams of each ragged row, grouped by width."""
    splits = np.asarray(data_splits)
    _check_splits(splits, data.size)
    if min(ngram_widths, default=1) <= 0:
        raise errors.InvalidArgumentError(
            f"ngram_widths must contain positive values, got {list(ngram_widths)}"
        )
    if not data.size:  # rows have no n-grams then, not even of padding
        return string_array([]), np.zeros_like(splits)
    ngrams = _NGrams(encode(separator), encode(left_pad), encode(right_pad), pad_width)
    longest = max(map(ngrams.pad_of, ngram_widths), default=0)
    if 2 * longest + data.size >= 1 << 31:
        raise errors.InvalidArgumentError(
            f"Pad width could lead to integer overflow, got pad_width = {longest}"
        )
    rows = _Rows(data.tolist(), splits)
    parts = [ngrams.of_rows(rows, width) for width in ngram_widths]
    if preserve_short_sequences:
        num_found = _count_of_rows(parts, len(rows.sizes))
        short = [
            ngrams.of(row, len(row) + 2 * pad_width) if row and not count else []
            for row, count in zip(rows.lists, num_found.tolist(), strict=True)
        ]
        sizes = np.fromiter(map(len, short), np.int64, len(short))
        parts.append((string_array(list(chain.from_iterable(short))), sizes))
    strings, counts = _by_row(parts, len(rows.sizes))
    ends = np.zeros(len(splits), splits.dtype)
    ends[1:] = np.cumsum(counts)
    return strings, ends
