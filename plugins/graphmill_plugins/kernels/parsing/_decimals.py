"""Parse decimal numbers of up to sixteen characters from many strings at once.

Eight characters are one integer, whose bytes become digits, pairs, fours and one number in three
multiplications. A number of at most fifteen digits and a power of ten are exact in float64, so the
quotient is what the text says to the last bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from graphmill_plugins.kernels.packed_strings import WORD, JoinedStrings

if TYPE_CHECKING:
    from collections.abc import Sequence

FEW: Final = 400
"""Up to so many strings, one after the other is quicker."""
_U64 = np.uint64
_LONGEST: Final = 2 * WORD
_EXACT: Final = 1 << 53  # below, float64 has every integer
_TENS: Final = 10.0 ** np.arange(_LONGEST)


def _every(byte: int) -> np.uint64:
    return _U64(byte * 0x0101010101010101)


_ZEROS, _POINTS, _ONES, _TOPS = _every(ord("0")), _every(ord(".")), _every(1), _every(0x80)
_LAST: Final = np.array([(1 << 64) - (1 << 8 * (WORD - count)) for count in range(WORD + 1)], _U64)
"""Masks of the last bytes of a word, by their number."""


class Decimals(NamedTuple):
    """The parsed parts of many strings, one array each.

    Attributes:
        digits: all digits as one integer, without the sign.
        places: how many of them are behind the point.
        is_negative: whether there is a minus sign.
        has_point: whether there is a point.
        is_read: False for what is longer, or is no such number: the rest says nothing of it.
    """

    digits: Any
    places: Any
    is_negative: Any
    has_point: Any
    is_read: Any

    def floats(self) -> Any:
        """Return the numbers as float64."""
        values = self.digits / _TENS[self.places]
        return np.where(self.is_negative, -values, values)


def read_decimals(items: Sequence[bytes]) -> Decimals:
    """Read `[+-]digits[.digits]` of at most 16 characters besides the sign from each string."""
    joined = JoinedStrings(items)
    first = joined.words_at(joined.starts) & _U64(0xFF)
    is_negative = (first == ord("-")) & (joined.sizes > 0)
    signed = is_negative | ((first == ord("+")) & (joined.sizes > 0))
    sizes, ends = joined.sizes - signed, joined.starts + joined.sizes
    fits = sizes <= _LONGEST
    low = _padded(joined.words_at(ends - WORD), np.minimum(sizes, WORD))
    high = _padded(joined.words_at(ends - _LONGEST), np.clip(sizes - WORD, 0, WORD))
    places = np.zeros(len(items), np.int64)
    has_point = _without_points(low, high, places)
    is_read = fits & (sizes > has_point) & _are_digits(low) & _are_digits(high)
    digits = _number(high) * 100_000_000 + _number(low)
    return Decimals(digits, places, is_negative, has_point, is_read & (digits < _EXACT))


def _padded(words: Any, counts: Any) -> Any:
    """Put zeros before the last characters of each word."""
    mask = _LAST[counts]
    return (words & mask) | (_ZEROS & ~mask)


def _without_points(low: Any, high: Any, places: Any) -> Any:
    """Take a point out of each number, in place, and tell which had one.

    What is before the point moves up by a byte. The number of characters behind goes to `places`.
    """
    in_low, in_high = _first_points(low), _first_points(high)
    chosen = np.flatnonzero(in_low)
    if chosen.size:
        before = high[chosen]
        low[chosen], places[chosen] = _cut(low[chosen], in_low[chosen], before >> _U64(56))
        high[chosen] = before << _U64(8) | _U64(ord("0"))
        in_high[chosen] = 0  # a second one stays, and is not a digit
    chosen = np.flatnonzero(in_high)
    if chosen.size:
        high[chosen], behind = _cut(high[chosen], in_high[chosen], _U64(ord("0")))
        places[chosen] = behind + WORD
    return (in_low | in_high) != 0


def _first_points(words: Any) -> Any:
    """Return the topmost bit of the first byte that is a point; 0 if there is none."""
    others = words ^ _POINTS
    found = (others - _ONES) & ~others & _TOPS
    return found & (~found + _U64(1))


def _cut(words: Any, points: Any, first: Any) -> tuple[Any, Any]:
    """Take a byte out of each word, and put `first` before it; also tell what is behind it."""
    below = (points >> _U64(7)) - _U64(1)
    above = ~((points << _U64(1)) - _U64(1))
    place = np.bitwise_count(points - _U64(1)) // WORD
    return (words & above) | ((words & below) << _U64(8)) | first, WORD - 1 - place.astype(np.int64)


def _are_digits(words: Any) -> Any:
    tens = _every(0xF0)
    return ((words & tens) == _ZEROS) & (((words + _every(6)) & tens) == _ZEROS)


def _number(words: Any) -> Any:
    """Return the integer that eight digits spell."""
    value = words - _ZEROS
    value = (value * _U64(10) + (value >> _U64(8))) & _U64(0x00FF00FF00FF00FF)
    value = (value * _U64(100) + (value >> _U64(16))) & _U64(0x0000FFFF0000FFFF)
    return ((value * _U64(10_000) + (value >> _U64(32))) & _U64(0xFFFFFFFF)).astype(np.int64)
