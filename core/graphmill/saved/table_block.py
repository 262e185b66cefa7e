"""`Block`: the entries of one block of a table, in key order.

Each key is stored without the prefix that it shares with the previous one, except at restart
points, whose positions follow the entries.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from graphmill.errors import DataLossError
from graphmill.proto.wire import read_varint

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_SEARCHES: Final = 32  # they take as long as decoding a block of about a thousand entries


class Block:
    """A block, in which keys are looked up.

    The first look-ups search the restart points and decode the entries after one of them. Further
    ones decode all entries, once. So looking up one key takes little time, and so do thousands.

    Threads: any may call; two that decode the entries at the same moment store equal results.

    Args:
        content: the entries and restart points.

    Raises:
        DataLossError: the restart points are damaged.
    """

    def __init__(self, content: bytes) -> None:
        if len(content) < 4:
            raise DataLossError("it is too short for the number of restart points")
        (count,) = struct.unpack_from("<I", content, len(content) - 4)
        end = len(content) - 4 - 4 * count
        if end < 0:
            raise DataLossError(f"it is too short for {count} restart points")
        self._content = content
        self._count = count
        self._end = end
        self._searches_left = _MAX_SEARCHES if count and end else 0
        self._values: dict[bytes, bytes] | None = None

    def entries(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the keys and values.

        Raises:
            DataLossError: the block is damaged, or its keys are not in order.
        """
        return self._from(0)

    def get(self, key: bytes) -> bytes | None:
        """Return the value of `key`, or None if it is not in the block.

        Raises:
            DataLossError: the block is damaged. It may be damaged where it is not searched.
        """
        if self._values is None:
            if self._searches_left > 0:
                self._searches_left -= 1
                return self._search(key)
            self._values = dict(self.entries())
        return self._values.get(key)

    def _search(self, key: bytes) -> bytes | None:
        low, high = 0, self._count - 1  # the last restart point whose key is not greater
        while low < high:
            middle = (low + high + 1) // 2
            if next(self._from(self._restart(middle)))[0] <= key:
                low = middle
            else:
                high = middle - 1
        for found, value in self._from(self._restart(low)):
            if found >= key:
                return value if found == key else None
        return None

    def _restart(self, index: int) -> int:
        """Return the position of a restart point."""
        (position,) = struct.unpack_from("<I", self._content, self._end + 4 * index)
        if position >= self._end:
            raise DataLossError(f"restart point {index} is at byte {position}, after all entries")
        return int(position)

    def _from(self, position: int) -> Iterator[tuple[bytes, bytes]]:
        """Yield the keys and values from a restart point on."""
        block, end = self._content, self._end
        key: bytes | None = None
        while position < end:
            shared, position = read_varint(block, position, end)
            unshared, position = read_varint(block, position, end)
            size, position = read_varint(block, position, end)
            start = position + unshared
            if shared > len(key or b"") or start + size > end:
                raise DataLossError(f"the entry at byte {position} exceeds the block")
            previous, key = key, (key or b"")[:shared] + block[position:start]
            if previous is not None and key <= previous:
                raise DataLossError(
                    f"key {key!r} is not greater than the previous key {previous!r}"
                )
            position = start + size
            yield key, block[start:position]
