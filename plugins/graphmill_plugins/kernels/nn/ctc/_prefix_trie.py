"""A trie of label sequences, in which a beam search names its prefixes by ids."""

from __future__ import annotations

from graphmill.spi.kernels import cancellable


class PrefixTrie:
    """A trie of prefixes: each id stands for a parent's id and a label."""

    def __init__(self, roots: int, classes: int) -> None:
        self._classes = classes
        self._roots = roots
        self._ids: dict[int, int] = {}
        self._keys: list[int] = []

    def extend(self, keys: list[int]) -> list[int]:
        """Return the ids of prefixes for keys `parent's id * classes + label`."""
        ids, first = self._ids, self._roots + 1
        return [ids.setdefault(key, len(ids) + first) for key in cancellable(keys)]

    @property
    def size(self) -> int:
        """The exclusive upper bound of all ids."""
        return self._roots + 1 + len(self._ids)

    def labels(self, prefix: int, merge_repeated: bool) -> list[int]:
        """Return the labels of a prefix, without repetitions if `merge_repeated`."""
        if len(self._keys) < len(self._ids):
            self._keys = list(self._ids)
        reversed_labels: list[int] = []
        last = -1
        while prefix > self._roots:
            prefix, label = divmod(self._keys[prefix - self._roots - 1], self._classes)
            if not (merge_repeated and label == last):
                reversed_labels.append(label)
            last = label
        return reversed_labels[::-1]
