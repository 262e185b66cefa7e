"""Cache the parsed headers of `Example` entries across batches.

Serializers encode a map entry in one way: lengths, key, list type, and then the values. The bytes
before the values are its header. Entries with equal headers have equal keys, types and sizes, so a
header is parsed once. There are few headers: one per key and size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill import dtypes
from graphmill.spi.protos import LENGTH
from graphmill_plugins.kernels.parsing._layouts import make_layout, number_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.dtypes import DType
    from graphmill_plugins.kernels.parsing._layouts import Layout, NumberColumns

FIRST: Final = 1 << 3 | LENGTH
"""The tag of a length-delimited field 1: the features of an example, the key of an entry …"""
SECOND: Final = 2 << 3 | LENGTH
"""The tag of a length-delimited field 2: the value of an entry, the lists of a sequence example."""
KINDS: Final[tuple[DType, ...]] = (dtypes.string, dtypes.float32, dtypes.int64)
_WIDTHS: Final = {dtypes.float32: 4, dtypes.int64: 1}
"""The bytes of a number; integers are varints, and are decoded together if each takes one."""
_MAX_ENTRIES: Final = 4096
_MAX_HEADER_SIZE: Final = 256
_MAX_LAYOUTS: Final = 64  # for one list of keys; a data set of varied examples has no use for more


class Headers:
    """A cache of parsed headers, which maps each header to the slot of the values after it.

    There is a slot for each requested key and list type.

    Threads: parsers may share it; the entry of a header never changes, and may be evicted.

    Attributes:
        keys: the requested keys.
        slots: the index of each key's first slot; it has one for each of `KINDS`.
        entries: for each header its slot (None if its key is not requested) and the entry's size.
        layouts: for each length of an example the layout of the first one.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        self.keys = keys
        self.slots = {key: index * len(KINDS) for index, key in enumerate(dict.fromkeys(keys))}
        self.entries: dict[bytes, tuple[int | None, int]] = {}
        self.layouts: dict[int, Layout] = {}
        self._layout_count = 0
        self._columns: dict[tuple[int, ...], dict[DType, NumberColumns | None]] = {}

    def add(self, header: bytes, slot: int | None, size: int) -> None:
        """Add a parsed header, unless it is long; clear a full cache first."""
        if len(header) > _MAX_HEADER_SIZE:
            return
        if len(self.entries) >= _MAX_ENTRIES:
            self.entries.clear()
        self.entries[header] = slot, size

    def add_layout(
        self, content: bytes, start: int, entries: Sequence[tuple[int | None, int, int]]
    ) -> Layout | None:
        """Add the layout of an example; see `make_layout`. None if there are too many layouts."""
        if self._layout_count >= _MAX_LAYOUTS:
            return None
        self._layout_count += 1
        layout = self.layouts[len(content)] = make_layout(content, start, entries)
        return layout

    def number_columns(self, lengths: tuple[int, ...]) -> dict[DType, NumberColumns | None]:
        """Return the columns of floats and of integers in examples of these lengths.

        They are None if the layouts of the lengths differ in them.
        """
        columns = self._columns.get(lengths)
        if columns is None:
            layouts = [self.layouts[length] for length in lengths]
            columns = {
                kind: number_columns(layouts, KINDS.index(kind), len(KINDS), width)
                for kind, width in _WIDTHS.items()
            }
            if len(self._columns) >= _MAX_LAYOUTS:
                self._columns.clear()
            self._columns[lengths] = columns
        return columns


class HeaderCache:
    """The headers that a node has parsed, for the most recently requested keys."""

    def __init__(self) -> None:
        self._last = Headers(())

    def of(self, keys: Sequence[bytes]) -> Headers:
        """Return the cached headers for these keys."""
        headers = self._last
        if headers.keys != keys:
            self._last = headers = Headers(keys)
        return headers
