"""Remember the headers of `Example` entries from batch to batch.

Serialisers write an entry of a map in one way: its lengths, the key, the kind, and then one run of
values. All before that run is its header. Entries with equal headers are of one key, one kind and
one size, so that a header has to be taken apart once only, and there are few: one for each size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill import dtypes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.dtypes import DType

KINDS: Final[tuple[DType, ...]] = (dtypes.string, dtypes.float32, dtypes.int64)
_MOST: Final = 4096
_LONGEST: Final = 256


class Headers:
    """Headers of entries, and the slot that the values behind each belong to.

    There is a slot for each key that is asked for and each kind of list. Parsers of several threads
    may share it: what is known of a header never changes, and nothing breaks if it is forgotten.

    Attributes:
        keys: what is asked for.
        slots: of each key, the number of its first slot; there is one for each of `KINDS`.
        known: of each header its slot, None for a key that nobody asked for, and the entry's size.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        self.keys = keys
        self.slots = {key: place * len(KINDS) for place, key in enumerate(dict.fromkeys(keys))}
        self.known: dict[bytes, tuple[int | None, int]] = {}

    def remember(self, header: bytes, slot: int | None, size: int) -> None:
        """Remember a parsed header, unless it is long."""
        if len(header) > _LONGEST:
            return
        if len(self.known) >= _MOST:
            self.known.clear()
        self.known[header] = slot, size


class HeadersOfNode:
    """The headers that a node has seen, for the keys that it was asked for last."""

    def __init__(self) -> None:
        self._last = Headers(())

    def of(self, keys: Sequence[bytes]) -> Headers:
        """Return the headers known for a parser of these keys."""
        headers = self._last
        if headers.keys != keys:
            self._last = headers = Headers(keys)
        return headers
