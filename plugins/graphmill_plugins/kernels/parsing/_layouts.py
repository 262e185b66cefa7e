"""Find the values of an `Example` by the layout of an earlier example.

The examples of one data set often differ in nothing but their values: keys, types, sizes and order
are the same. The bytes outside of the values are then the same, too. This is checked for a whole
batch at once, and the values are slices at known positions. If all examples of a batch have layouts
with equal numbers of values, the numbers are decoded from a table of bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

_LARGEST_BYTE: Final = 127  # of a varint that takes one byte


class Layout(NamedTuple):
    """The positions of the values in an example of a certain length.

    Attributes:
        start: the start of the `Features` message.
        spans: for each entry with requested values their slot, their start and their end.
        expected: the bytes of the example.
        mask: 255 for the bytes that are not part of a requested or skipped value, 0 for others.
    """

    start: int
    spans: tuple[tuple[int, int, int], ...]
    expected: Any
    mask: Any

    def rows_of(self, contents: Sequence[bytes]) -> tuple[Any, list[bool]]:
        """Return a table of the bytes of some examples, and whether each has the layout.

        The examples have the length of the layout. An example with the layout parses to the same
        entries: all bytes that decide on them are equal.
        """
        table = np.frombuffer(b"".join(contents), np.uint8).reshape(len(contents), -1)
        difference = (table ^ self.expected) & self.mask
        if not difference.any():
            return table, [True] * len(contents)
        matches: list[bool] = (~difference.any(axis=1)).tolist()
        return table, matches


def make_layout(
    content: bytes, start: int, entries: Sequence[tuple[int | None, int, int]]
) -> Layout:
    """Return the layout of an example.

    Args:
        content: the serialized example.
        start: the start of the `Features` message.
        entries: slot, start and end of the values of each entry; a slot of None means that the
            values are not requested.
    """
    mask = np.full(len(content), 255, np.uint8)
    for _, first, last in entries:
        mask[first:last] = 0
    spans = tuple((slot, first, last) for slot, first, last in entries if slot is not None)
    return Layout(start, spans, np.frombuffer(content, np.uint8), mask)


class NumberColumns:
    """The positions of fixed-width numbers in examples of some layouts.

    Attributes:
        counts: the slot of each entry, and its number of values, in the order of slots.
        positions: for each layout the indices of these bytes, entry by entry.
    """

    def __init__(self, counts: list[tuple[int, int]], positions: list[Any]) -> None:
        self.counts, self.positions = counts, positions

    def gathered(self, tables: Sequence[tuple[Sequence[int], Any]], count: int) -> Any:
        """Return the bytes of all examples, one in each row.

        Args:
            tables: for each layout the indices of its examples and the table of their bytes.
            count: the number of examples.
        """
        if len(tables) == 1:
            return tables[0][1].take(self.positions[0], axis=1)
        out = np.empty((count, len(self.positions[0])), np.uint8)
        for (rows, table), positions in zip(tables, self.positions, strict=True):
            out[rows] = table.take(positions, axis=1)
        return out


def number_columns(
    layouts: Sequence[Layout], kind: int, kinds: int, width: int
) -> NumberColumns | None:
    """Return the columns of one kind of lists if they are the same in all layouts, else None.

    Args:
        layouts: those of the examples.
        kind: the position of the kind among the slots of a key.
        kinds: the number of slots of a key.
        width: the number of bytes of a number.
    """
    columns = []
    for layout in layouts:
        if len({slot // kinds for slot, _, _ in layout.spans}) < len(layout.spans):
            return None  # an example has a key twice
        columns.append(sorted(span for span in layout.spans if span[0] % kinds == kind))
    shapes = {tuple((slot, end - start) for slot, start, end in spans) for spans in columns}
    if len(shapes) != 1:
        return None
    (shape,) = shapes
    if not shape or any(size % width for _, size in shape):
        return None
    positions = [
        np.concatenate([np.arange(start, end) for _, start, end in spans]) for spans in columns
    ]
    return NumberColumns([(slot, size // width) for slot, size in shape], positions)


def floats_of(content: Any) -> Any:
    """Convert a table of bytes to a table of floats."""
    return content.view("<f4").astype(np.float32, copy=False)


def small_integers_of(content: Any) -> Any:
    """Convert a table of bytes to integers; return None if a varint takes more than one byte."""
    return content.astype(np.int64) if content.max(initial=0) <= _LARGEST_BYTE else None
