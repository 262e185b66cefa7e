"""Parse decimal numbers of up to sixteen characters from many strings at once.

Eight characters are read as one integer (SWAR): three multiplications combine its bytes into pairs
of digits, groups of four, and the number. An integer below 2**53 and a power of ten are exact in
float64, so their quotient is correctly rounded.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from graphmill_plugins.kernels.packed_strings import WORD, PackedStrings

MAX_SCALAR_PARSES: Final = 400
"""Number of strings up to which parsing them one by one is faster."""
_U64 = np.uint64
_MAX_DIGITS: Final = 2 * WORD
_EXACT: Final = 1 << 53  # float64 represents all integers below
_POWERS_OF_TEN: Final = 10.0 ** np.arange(_MAX_DIGITS)


def _repeated(byte: int) -> np.uint64:
    return _U64(byte * 0x0101010101010101)


_ZEROS, _POINTS = _repeated(ord("0")), _repeated(ord("."))
_ONES, _HIGH_BITS = _repeated(1), _repeated(0x80)
_TAIL_MASKS: Final = np.array(
    [(1 << 64) - (1 << 8 * (WORD - count)) for count in range(WORD + 1)], _U64
)
"""Masks of the last bytes of a word, by the number of bytes."""


class Decimals(NamedTuple):
    """The parsed parts of many strings, each an array.

    Attributes:
        digits: all digits as one integer, without the sign.
        scale: the number of digits after the decimal point.
        is_negative: whether there is a minus sign.
        has_point: whether there is a decimal point.
        is_parsed: False for a string that is too long or not a decimal; its other parts are
            meaningless.
    """

    digits: Any
    scale: Any
    is_negative: Any
    has_point: Any
    is_parsed: Any

    def floats(self) -> Any:
        """Return the numbers as float64."""
        values = self.digits / _POWERS_OF_TEN[self.scale]
        return np.where(self.is_negative, -values, values)


def parse_decimals(packed: PackedStrings) -> Decimals:
    """Parse `[+-]digits[.digits]` of at most 16 characters besides the sign from each string."""
    first = packed.words_at(packed.starts) & _U64(0xFF)
    is_negative = (first == ord("-")) & (packed.sizes > 0)
    signed = is_negative | ((first == ord("+")) & (packed.sizes > 0))
    sizes, ends = packed.sizes - signed, packed.starts + packed.sizes
    scale = np.zeros(len(sizes), np.int64)
    low = _padded(packed.words_at(ends - WORD), np.minimum(sizes, WORD))
    high = None
    if sizes.max(initial=0) > WORD:
        high = _padded(packed.words_at(ends - _MAX_DIGITS), np.clip(sizes - WORD, 0, WORD))
    has_point = _remove_points(low, high, scale)
    is_parsed = (sizes > has_point) & _are_digits(low)
    digits = _eight_digits(low)
    if high is not None:
        is_parsed &= (sizes <= _MAX_DIGITS) & _are_digits(high)
        digits += _eight_digits(high) * 100_000_000
        is_parsed &= digits < _EXACT
    return Decimals(digits, scale, is_negative, has_point, is_parsed)


def _padded(words: Any, counts: Any) -> Any:
    """Keep the last `counts` characters of each word, padded with zeros on the left."""
    mask = _TAIL_MASKS[counts]
    return (words & mask) | (_ZEROS & ~mask)


def _remove_points(low: Any, high: Any | None, scale: Any) -> Any:
    """Remove a decimal point from each number, in place; return which numbers had one.

    The characters before the point move by one byte. `scale` gets the number of characters after.
    Without `high` all numbers are in `low`.
    """
    in_low = _first_points(low)
    chosen = _nonzero(in_low)
    if high is None:
        low[chosen], scale[chosen] = _remove_bytes(low[chosen], in_low[chosen], _U64(ord("0")))
        return in_low != 0
    in_high = _first_points(high)
    before = high[chosen].copy()
    low[chosen], scale[chosen] = _remove_bytes(low[chosen], in_low[chosen], before >> _U64(56))
    high[chosen] = before << _U64(8) | _U64(ord("0"))
    in_high[chosen] = 0  # a second point stays, and is rejected as a digit
    chosen = _nonzero(in_high)
    high[chosen], following = _remove_bytes(high[chosen], in_high[chosen], _U64(ord("0")))
    scale[chosen] = following + WORD
    return (in_low | in_high) != 0


def _nonzero(values: Any) -> Any:
    """Return an index of the elements that are not zero, a slice if all are."""
    indices = np.flatnonzero(values)
    return slice(None) if len(indices) == len(values) else indices


def _first_points(words: Any) -> Any:
    """Return the topmost bit of the first byte that is a point; 0 if no byte is."""
    others = words ^ _POINTS
    marked = (others - _ONES) & ~others & _HIGH_BITS
    return marked & (~marked + _U64(1))


def _remove_bytes(words: Any, points: Any, first: Any) -> tuple[Any, Any]:
    """Remove a byte from each word and prepend `first`; also return the number of bytes after."""
    below = (points >> _U64(7)) - _U64(1)
    above = ~((points << _U64(1)) - _U64(1))
    index = np.bitwise_count(points - _U64(1)) // WORD
    following = WORD - 1 - index.astype(np.int64)
    return (words & above) | ((words & below) << _U64(8)) | first, following


def _are_digits(words: Any) -> Any:
    high_nibbles = _repeated(0xF0)
    is_0x3n = (words & high_nibbles) == _ZEROS
    return is_0x3n & (((words + _repeated(6)) & high_nibbles) == _ZEROS)


def _eight_digits(words: Any) -> Any:
    """Return the integer of eight decimal digits."""
    value = words - _ZEROS
    value = (value * _U64(10) + (value >> _U64(8))) & _U64(0x00FF00FF00FF00FF)
    value = (value * _U64(100) + (value >> _U64(16))) & _U64(0x0000FFFF0000FFFF)
    return ((value * _U64(10_000) + (value >> _U64(32))) & _U64(0xFFFFFFFF)).astype(np.int64)
