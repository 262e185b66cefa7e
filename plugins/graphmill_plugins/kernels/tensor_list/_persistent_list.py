"""`PersistentList`: an immutable list; a change makes a new list that shares most nodes.

All the lists of one history share the Python list that the newest of them holds. An older one
knows only how to get from its successor back to itself (Baker, "Shallow binding makes functional
arrays fast", 1991). So a loop that changes a list 1000 times does 1000 small steps and no copy,
whoever still holds the lists of earlier iterations; and what only an older list holds is freed with
it. Only a change to a list that has a successor already copies, as there two histories part.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Edit: TypeAlias = "tuple[int, int, tuple[Any, ...]]"
"""Replace so many items, from an index on, with these."""

_FAR: Final = 32  # successors to go through for one item before a list gets items of its own


class PersistentList:
    """A list that never changes.

    Threads: `lock`, common to a history, guards the fields that say where the items are. What the
    list means never changes.

    Attributes:
        length: number of items.
        lock, items, newer, undo: where the items are: in `items`, or else where `newer` has them,
            but for the edits `undo`. For this module only.
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
            IndexError: there is no such item; an index does not count from the end.
        """
        if not 0 <= index < self.length:
            raise IndexError(index)
        with self.lock:
            items = self.items
            return self._seek(index) if items is None else items[index]

    def to_list(self) -> list[Any]:
        """Return all items, as a list of the caller's own."""
        with self.lock:
            return self._own().copy()

    def replaced(self, indices: Sequence[int], values: Sequence[Any]) -> PersistentList:
        """Return the list with other items at some indices; the last duplicate wins."""
        latest = dict(zip(indices, values, strict=True))
        return self._changed(tuple((index, 1, (value,)) for index, value in latest.items()))

    def extended(self, values: Sequence[Any]) -> PersistentList:
        """Return the list with more items at its end."""
        return self._changed(((self.length, 0, tuple(values)),))

    def cut(self, length: int) -> PersistentList:
        """Return the first `length` items."""
        return self._changed(((length, self.length - length, ()),))

    def _changed(self, edits: tuple[Edit, ...]) -> PersistentList:
        """Return the list after some edits: one of any kind, or several that keep the length."""
        made = PersistentList((), self.lock)
        with self.lock:
            items = self._own()
            undo = []
            for start, count, values in edits:
                undo.append((start, len(values), tuple(items[start : start + count])))
                items[start : start + count] = values
            made.items, made.length = items, len(items)
            self.items, self.newer, self.undo = None, made, tuple(undo)
        return made

    def _own(self) -> list[Any]:
        """Return the items, which are this list's own from now on."""
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
        """Return an item, found by way of the successors of this list."""
        position = index
        node: PersistentList = self
        for _ in range(_FAR):
            for start, count, values in node.undo:
                if start <= position < start + len(values):
                    return values[position - start]
                if position >= start:
                    position += count - len(values)
            node = node.newer  # type: ignore[assignment]
            if node.items is not None:
                return node.items[position]
        return self._own()[index]
