"""Cache the parsed headers of `Example` entries across batches.

Serialisers encode a map entry in one way: lengths, key, list type, and then the values. The bytes
before the values are its header. Entries with equal headers have equal keys, types and sizes, so a
header is parsed once. There are few headers: one per key and size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill import dtypes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.dtypes import DType

KINDS: Final[tuple[DType, ...]] = (dtypes.string, dtypes.float32, dtypes.int64)
_MAX_ENTRIES: Final = 4096
_MAX_HEADER_SIZE: Final = 256


class Headers:
    """A cache of parsed headers, which maps each header to the slot of the values after it.

    There is a slot for each requested key and list type.

    Threads: parsers may share it; the entry of a header never changes, and may be evicted.

    Attributes:
        keys: the requested keys.
        slots: the index of each key's first slot; it has one for each of `KINDS`.
        entries: for each header its slot (None if its key is not requested) and the entry's size.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        self.keys = keys
        self.slots = {key: index * len(KINDS) for index, key in enumerate(dict.fromkeys(keys))}
        self.entries: dict[bytes, tuple[int | None, int]] = {}

    def add(self, header: bytes, slot: int | None, size: int) -> None:
        """Add a parsed header, unless it is long; clear a full cache first."""
        if len(header) > _MAX_HEADER_SIZE:
            return
        if len(self.entries) >= _MAX_ENTRIES:
            self.entries.clear()
        self.entries[header] = slot, size


class HeaderCache:
    """The headers that a node has parsed, for the keys requested last."""

    def __init__(self) -> None:
        self._last = Headers(())

    def of(self, keys: Sequence[bytes]) -> Headers:
        """Return the cached headers for these keys."""
        headers = self._last
        if headers.keys != keys:
            self._last = headers = Headers(keys)
        return headers
