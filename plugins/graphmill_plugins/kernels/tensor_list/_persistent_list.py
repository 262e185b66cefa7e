"""`PersistentList`: an immutable list; a change creates a new list that shares most items.

All versions of a list share one Python list, which the newest version holds. An older version
stores only the edits that lead from its successor back to itself (Baker, "Shallow binding makes
functional arrays fast", 1991). So a loop that changes a list 1000 times makes 1000 small edits and
no copy, even if the lists of earlier iterations are still referenced. Items that only an older
version contains are freed with it. Only a change to a version that already has a successor copies
the items, because the history branches there.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Edit: TypeAlias = "tuple[int, int, tuple[Any, ...]]"
"""(start, count, items): replace `count` items from `start` on with `items`."""

_MAX_SUCCESSORS: Final = 32  # a lookup that visits more gives the list its own items


class PersistentList:
    """An immutable list.

    Threads: `lock`, which all versions share, guards the fields that locate the items. The
    contents of the list never change.

    Attributes:
        length: number of items.
        lock, items, newer, undo: the items are in `items`; if that is None, they are those of
            `newer` after the edits `undo`. For this module only.
    """

    __slots__ = ("items", "length", "lock", "newer", "undo")

    def __init__(self, items: Iterable[Any] = (), lock: threading.Lock | None = None) -> None:
        self.items: list[Any] | None = list(items)
        self.length = len(self.items)
        self.lock = lock or threading.Lock()
        self.newer: PersistentList | None = None
        self.undo: tuple[Edit, ...] = ()

    def item(self, index: int) -> Any:
        """Return an item.

        Raises:
            IndexError: the index is out of range; negative indices are not supported.
        """
        if not 0 <= index < self.length:
            raise IndexError(index)
        with self.lock:
            items = self.items
            return self._seek(index) if items is None else items[index]

    def to_list(self) -> list[Any]:
        """Return all items in a new list."""
        with self.lock:
            return self._own().copy()

    def replaced(self, indices: Sequence[int], values: Sequence[Any]) -> PersistentList:
        """Return the list with new items at some indices; the last of equal indices counts."""
        latest = dict(zip(indices, values, strict=True))
        return self._changed(tuple((index, 1, (value,)) for index, value in latest.items()))

    def extended(self, values: Sequence[Any]) -> PersistentList:
        """Return the list with more items at its end."""
        return self._changed(((self.length, 0, tuple(values)),))

    def cut(self, length: int) -> PersistentList:
        """Return the first `length` items."""
        return self._changed(((length, self.length - length, ()),))

    def _changed(self, edits: tuple[Edit, ...]) -> PersistentList:
        """Return the list after one edit of any kind, or several that preserve the length."""
        changed = PersistentList((), self.lock)
        with self.lock:
            items = self._own()
            undo = []
            for start, count, values in edits:
                undo.append((start, len(values), tuple(items[start : start + count])))
                items[start : start + count] = values
            changed.items, changed.length = items, len(items)
            self.items, self.newer, self.undo = None, changed, tuple(undo)
        return changed

    def _own(self) -> list[Any]:
        """Return the items of this version; copy them from the newest version if necessary."""
        if self.items is not None:
            return self.items
        path: list[PersistentList] = []
        node: PersistentList = self
        while node.items is None:
            path.append(node)
            node = node.newer  # type: ignore[assignment]
        items = node.items.copy()
        for older in reversed(path):
            for start, count, values in older.undo:
                items[start : start + count] = values
        self.items, self.newer, self.undo = items, None, ()
        return items

    def _seek(self, index: int) -> Any:
        """Return an item, looked up through the successors of this list."""
        position = index
        node: PersistentList = self
        for _ in range(_MAX_SUCCESSORS):
            for start, count, values in node.undo:
                if start <= position < start + len(values):
                    return values[position - start]
                if position >= start:
                    position += count - len(values)
            node = node.newer  # type: ignore[assignment]
            if node.items is not None:
                return node.items[position]
        return self._own()[index]
