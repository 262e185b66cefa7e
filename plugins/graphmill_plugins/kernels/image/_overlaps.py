"""The overlaps of many boxes with many others, and the selection of boxes by them.

NumPy is slow with an operand that is repeated along the last axis, and with many short calls. So
operands are written out before they are compared, both axes of the boxes are compared at once, and
the boxes that one overlaps are the bits of an integer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from graphmill.spi import Value

_LARGEST: Final = np.finfo(np.float32).max
_WORD_BITS: Final = 64


class Corners(NamedTuple):
    """The corners of boxes in float32; those of boxes of zero area overlap nothing.

    Attributes:
        low, high: the smaller and the larger coordinates (2, …, boxes).
        area: (…, boxes).
    """

    low: Any
    high: Any
    area: Any

    @classmethod
    def of(cls, boxes: Value) -> Corners:
        """Return the corners of boxes (…, boxes, 4), each two opposite ones in any order."""
        columns = boxes.transpose(-1, *range(boxes.ndim - 1)).astype(np.float32, order="C")
        low, high = np.minimum(columns[:2], columns[2:]), np.maximum(columns[:2], columns[2:])
        size = high - low
        area = size[0] * size[1]
        has_area = area > 0
        if not has_area.all():  # empty boxes have no length in common with any box
            is_empty = ~has_area
            low[:, is_empty], high[:, is_empty], area[is_empty] = _LARGEST, -_LARGEST, 1
        return cls(low, high, area)

    def take(self, indices: Any) -> Corners:
        """Return the corners of some boxes."""
        low, high, area = self
        return Corners(low.take(indices, -1), high.take(indices, -1), area.take(indices, -1))


def intersection_over_union(first: Corners, second: Corners) -> Any:
    """Return the overlap of each box of `first` with each of `second`, in float32."""
    low, high = np.empty((2, *first.low.shape, second.low.shape[-1]), np.float32)
    low[...], high[...] = first.low[..., None], first.high[..., None]
    np.maximum(low, second.low[..., None, :], out=low)
    np.minimum(high, second.high[..., None, :], out=high)
    length = np.maximum(low, high, out=high)
    length -= low
    common = np.multiply(length[0], length[1], out=length[0])
    union = low[0]
    union[...] = first.area[..., None]
    union += second.area[..., None, :]
    union -= common
    common /= union
    return common


def as_integers(overlaps: Value, limit: float) -> list[list[int]]:
    """Return an integer for each box of each row, with a bit for each other box that overlaps it.

    Args:
        overlaps: (rows, boxes, others).
        limit: the overlap above which a bit is set.
    """
    rows, count, others = overlaps.shape
    words = max(1, -(-others // _WORD_BITS))
    is_above = np.zeros((rows, count, words * _WORD_BITS), np.bool_)
    np.greater(overlaps, limit, out=is_above[..., :others])
    packed = np.packbits(is_above.reshape(-1), bitorder="little").view("<u8")
    if words == 1:
        return packed.reshape(rows, count).tolist()
    size = words * packed.itemsize
    return [
        [
            int.from_bytes(text[start : start + size], "little")
            for start in range(0, len(text), size)
        ]
        for text in map(bytes, packed.reshape(rows, count * words))
    ]


def greedy(overlaps: list[int], most: int) -> list[int]:
    """Return at most `most` positions, best first, none of which overlaps a better one.

    Args:
        overlaps: for each position an integer with a bit for each position that overlaps it.
        most: the maximum number of selected positions.
    """
    selected: list[int] = []
    dropped = 0
    for position, others in enumerate(overlaps):
        if dropped >> position & 1:
            continue
        if len(selected) >= most:
            break
        selected.append(position)
        dropped |= others
    return selected
