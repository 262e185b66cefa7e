"""Find the values of an `Example` by the layout of an earlier one.

The examples of one data set often differ in nothing but their values: keys, types, sizes and order
are the same. The bytes outside of the values then are the same too, which is compared for a whole
batch at once, and the values are slices at known positions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence


class Layout(NamedTuple):
    """Where the values of an example are; for examples of one length.

    Attributes:
        start: the start of the `Features` message.
        spans: for each entry the slot of its values, their start and their end.
        positions: the indices of the bytes that are not part of a requested or skipped value.
        expected: these bytes.
    """

    start: int
    spans: tuple[tuple[int, int, int], ...]
    positions: Any
    expected: Any

    def matches(self, contents: Sequence[bytes]) -> list[bool]:
        """Return for each of some examples, all of the layout's length, whether it has the layout.

        An example with the layout parses to the same entries: all bytes that decide on them are
        equal.
        """
        table = np.frombuffer(b"".join(contents), np.uint8).reshape(len(contents), -1)
        found: list[bool] = (table[:, self.positions] == self.expected).all(axis=1).tolist()
        return found


def make_layout(
    content: bytes, start: int, entries: Sequence[tuple[int | None, int, int]]
) -> Layout:
    """Return the layout of an example.

    Args:
        content: the serialised example.
        start: the start of the `Features` message.
        entries: slot, start and end of the values of each entry; a slot of None means that the
            values are not requested.
    """
    is_structure = np.ones(len(content), bool)
    for _, first, last in entries:
        is_structure[first:last] = False
    positions = np.flatnonzero(is_structure)
    spans = tuple((slot, first, last) for slot, first, last in entries if slot is not None)
    return Layout(start, spans, positions, np.frombuffer(content, np.uint8)[positions])
