"""SipHash-2-4 of many strings at once.

The function is public (J.-P. Aumasson and D. J. Bernstein, 2012). It takes rounds of operations on
64-bit integers for each 8-byte word. The strings are sorted, the longest first, and a string with
fewer words joins later, so that all of them end together: those that have joined are the first
rows. A few strings are lanes of 128 bits in Python integers (`_Lanes`); more are rows of NumPy
arrays (`_Rows`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.spi.kernels import cancellable
from graphmill_plugins.kernels.packed_strings import WORD, PackedStrings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_U64 = np.uint64
_MAX_LANES: Final = 128
"""Number of strings up to which operations on Python integers are faster."""
_LANE: Final = 16  # bytes
_INITIAL_STATE = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
_TABLE_WORDS: Final = 1 << 20  # words of all strings that are gathered together
_LAST_ROUNDS: Final = 4


def sip_hashes(items: Sequence[bytes], key0: int, key1: int) -> Any:
    """Return the hashes under a key of two 64-bit integers, as uint64."""
    packed = PackedStrings(items)
    counts = packed.sizes // WORD + 1
    order = np.argsort(-counts, kind="stable")
    words = _Words(packed, order, counts)
    keys = (key0, key1, key0, key1)
    initial = [a ^ b for a, b in zip(_INITIAL_STATE, keys, strict=True)]
    result = np.empty(len(items), _U64)
    result[order] = _hashes(words, initial)
    return result


class _Words:
    """The words of strings, by the step in which they are hashed.

    Args:
        packed: the strings.
        order: their order by the number of words, the longest first.
        counts: the number of words of each; its last word has its size.

    Attributes:
        count: the number of strings.
        joined: for each step the number of strings that take part in it.
    """

    def __init__(self, packed: PackedStrings, order: Any, counts: Any) -> None:
        self._packed = packed
        self._starts, self._sizes = packed.starts[order], packed.sizes[order]
        self.count = len(order)
        self.steps = int(counts.max(initial=0))
        self._missing = self.steps - counts[order]
        first_steps = np.bincount(self._missing, minlength=self.steps)
        self.joined: list[int] = np.cumsum(first_steps).tolist()

    def tables(self, first: int, last: int) -> Iterator[Any]:
        """Iterate over the words of some steps, as tables with a row for each step."""
        while first < last:
            end = min(last, first + max(1, _TABLE_WORDS // self.count))
            yield self._table(first, end)
            first = end

    def _table(self, first: int, last: int) -> Any:
        joined = self.joined[last - 1]
        index = np.arange(first, last)[:, None] - self._missing[:joined]
        table = self._packed.words_at(self._starts[:joined] + WORD * np.maximum(index, 0))
        if last == self.steps:
            sizes = self._sizes[:joined]
            bits = (8 * (sizes % WORD)).astype(_U64)
            table[-1] &= (_U64(1) << bits) - _U64(1)
            table[-1] |= sizes.astype(_U64) << _U64(56)
        return table


def _hashes(words: _Words, initial: list[int]) -> Any:
    """Return the hashes of all strings, in the order of `words`."""
    few = int(np.searchsorted(words.joined, _MAX_LANES, side="right"))
    lanes = _Lanes(initial)
    for table in words.tables(0, few):
        lanes.add_words(table, words.joined)
    if few == words.steps:
        return lanes.hashes()
    rows = _Rows(initial, words.count, lanes.state())
    step = few
    for table in words.tables(few, words.steps):
        for block in cancellable(table):
            joined = words.joined[step]
            rows.add(block[:joined], joined)
            step += 1
    return rows.hashes()


class _Lanes:
    """States of SipHash in Python integers, with 128 bits for each string.

    The upper half of a lane takes what a sum or a shift carries over, until it is masked.
    """

    def __init__(self, initial: list[int]) -> None:
        self._initial = initial
        self._count = self._step = 0
        self._values = (0, 0, 0, 0)
        self._ones = 0  # 1 in each lane

    def add_words(self, table: Any, joined: list[int]) -> None:
        """Hash the words of some steps; `joined` has the number of strings of each step."""
        size = table.shape[1] * _LANE
        padded = np.zeros((*table.shape, 2), "<u8")
        padded[:, :, 0] = table
        content = padded.tobytes()
        for start in cancellable(range(0, len(content), size or 1)):
            count = joined[self._step]
            if count != self._count:
                self._grow(count)
            block = int.from_bytes(content[start : start + count * _LANE], "little")
            v0, v1, v2, v3 = self._values
            v0, v1, v2, v3 = self._rounds(v0, v1, v2, v3 ^ block, 2)
            self._values = v0 ^ block, v1, v2, v3
            self._step += 1

    def hashes(self) -> Any:
        """Return the hashes as uint64."""
        v0, v1, v2, v3 = self._values
        v0, v1, v2, v3 = self._rounds(v0, v1, v2 ^ 0xFF * self._ones, v3, _LAST_ROUNDS)
        return self._unpacked(v0 ^ v1 ^ v2 ^ v3)

    def state(self) -> list[Any]:
        """Return the state as four arrays of uint64."""
        return [self._unpacked(value) for value in self._values]

    def _unpacked(self, value: int) -> Any:
        content = value.to_bytes(self._count * _LANE, "little")
        return np.frombuffer(content, "<u8")[::2].astype(_U64)

    def _grow(self, count: int) -> None:
        new = int.from_bytes((1).to_bytes(_LANE, "little") * (count - self._count), "little")
        shift = 8 * _LANE * self._count
        pairs = zip(self._values, self._initial, strict=True)
        v0, v1, v2, v3 = (value | start * new << shift for value, start in pairs)
        self._values = v0, v1, v2, v3
        self._ones |= new << shift
        self._count = count

    def _rounds(self, v0: int, v1: int, v2: int, v3: int, count: int) -> tuple[int, int, int, int]:
        mask = self._ones * 0xFFFFFFFFFFFFFFFF
        for _ in range(count):
            v0 = v0 + v1 & mask
            v1 = (v1 << 13 | v1 >> 51) & mask ^ v0
            v0 = (v0 << 32 | v0 >> 32) & mask
            v2 = v2 + v3 & mask
            v3 = (v3 << 16 | v3 >> 48) & mask ^ v2
            v0 = v0 + v3 & mask
            v3 = (v3 << 21 | v3 >> 43) & mask ^ v0
            v2 = v2 + v1 & mask
            v1 = (v1 << 17 | v1 >> 47) & mask ^ v2
            v2 = (v2 << 32 | v2 >> 32) & mask
        return v0, v1, v2, v3


class _Rows:
    """States of SipHash in four arrays.

    Arguments of NumPy's functions are vectors and scalars, for which its overhead is smallest: for
    a batch of some hundred strings, the overhead exceeds the time of the operations.
    """

    def __init__(self, initial: list[int], count: int, begun: list[Any]) -> None:
        self._values = [np.full(count, start, _U64) for start in initial]
        for row, values in zip(self._values, begun, strict=True):
            row[: len(values)] = values
        self._scratch = np.empty(count, _U64)
        self._joined = 0
        self._active: list[Any] = []

    def add(self, block: Any, joined: int) -> None:
        """Hash a word of each of the first `joined` strings."""
        if joined != self._joined:
            self._joined = joined
            self._active = [row[:joined] for row in (*self._values, self._scratch)]
        v0, v1, v2, v3, scratch = self._active
        np.bitwise_xor(v3, block, v3)
        _rounds(2, v0, v1, v2, v3, scratch)
        np.bitwise_xor(v0, block, v0)

    def hashes(self) -> Any:
        """Return the hashes as uint64."""
        v0, v1, v2, v3 = self._values
        v2 ^= _U64(0xFF)
        _rounds(_LAST_ROUNDS, v0, v1, v2, v3, self._scratch)
        return v0 ^ v1 ^ v2 ^ v3


def _shifts(count: int) -> tuple[Any, Any]:
    """Return the shifts to the left and to the right that rotate to the left."""
    return np.array(count, _U64), np.array(64 - count, _U64)


_BY_13, _BY_16, _BY_17, _BY_21, _BY_32 = map(_shifts, (13, 16, 17, 21, 32))


def _rounds(count: int, v0: Any, v1: Any, v2: Any, v3: Any, scratch: Any) -> None:
    """Compute rounds in place."""
    add, xor, rotate = np.add, np.bitwise_xor, _rotate
    for _ in range(count):
        add(v0, v1, v0)
        rotate(v1, _BY_13, scratch)
        xor(v1, v0, v1)
        rotate(v0, _BY_32, scratch)
        add(v2, v3, v2)
        rotate(v3, _BY_16, scratch)
        xor(v3, v2, v3)
        add(v0, v3, v0)
        rotate(v3, _BY_21, scratch)
        xor(v3, v0, v3)
        add(v2, v1, v2)
        rotate(v1, _BY_17, scratch)
        xor(v1, v2, v1)
        rotate(v2, _BY_32, scratch)


def _rotate(
    value: Any,
    shifts: tuple[Any, Any],
    scratch: Any,
    left: Any = np.left_shift,
    right: Any = np.right_shift,
    either: Any = np.bitwise_or,
) -> None:
    left(value, shifts[0], scratch)
    right(value, shifts[1], value)
    either(value, scratch, value)
