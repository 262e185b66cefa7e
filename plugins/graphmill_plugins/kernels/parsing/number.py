"""StringToNumber: parse numbers from strings.

Semantics: tensorflow/core/kernels/string_to_number_op.cc.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import errors
from graphmill.spi import kernel
from graphmill.spi.kernels import cancellable
from graphmill_plugins.kernels._strings import decode
from graphmill_plugins.kernels.packed_strings import PackedStrings
from graphmill_plugins.kernels.parsing._decimals import MAX_SCALAR_PARSES, parse_decimals

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Value

_FLOAT = re.compile(
    rb"\s*[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf(?:inity)?|nan)\s*", re.IGNORECASE
)
_HEX_FLOAT = re.compile(
    rb"\s*[+-]?0x(?:[\da-f]+\.?[\da-f]*|\.[\da-f]+)(?:p[+-]?\d+)?\s*", re.IGNORECASE
)
_INTEGER = re.compile(rb"\s*[+-]?\d+\s*")


def _not_a_number(item: bytes) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(
        f"StringToNumberOp could not correctly convert string: {decode(item)[:200]}"
    )


def _to_float(item: bytes) -> float:
    if _FLOAT.fullmatch(item):
        return float(item)
    if _HEX_FLOAT.fullmatch(item):
        return float.fromhex(item.decode())
    raise _not_a_number(item)


def _floats(items: list[bytes]) -> Any:
    """Parse the numbers in strings, as float64."""
    if len(items) > MAX_SCALAR_PARSES:
        decimals = parse_decimals(PackedStrings(items))
        result = decimals.floats()
        if decimals.is_parsed.all():
            return result
        rest = np.flatnonzero(~decimals.is_parsed)
        result[rest] = _floats_one_by_one([items[index] for index in rest.tolist()])
        return result
    return _floats_one_by_one(items)


def _floats_one_by_one(items: list[bytes]) -> Any:
    if b"_" not in b" ".join(items):  # Python accepts 1_000
        try:
            return np.fromiter(map(float, items), np.float64, len(items))
        except ValueError:
            pass  # hexadecimal or invalid: handled below
    return np.fromiter(map(_to_float, cancellable(items)), np.float64, len(items))


def _integers(items: list[bytes], dtype: np.dtype[Any]) -> Any:
    """Parse the integers in strings."""
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)

    def to_integer(item: bytes) -> int:
        if not _INTEGER.fullmatch(item) or (low == 0 and b"-" in item):
            raise _not_a_number(item)
        number = int(item)
        if not low <= number <= high:
            raise _not_a_number(item)
        return number

    if len(items) > MAX_SCALAR_PARSES:
        numbers, is_valid = decimal_numbers(PackedStrings(items), dtype)
        if is_valid.all():
            return numbers
    text = b" ".join(items)
    if b"_" not in text and not (low == 0 and b"-" in text):  # Python accepts 1_000
        try:
            numbers = np.fromiter(map(int, cancellable(items)), np.int64, len(items))
        except (ValueError, OverflowError):
            pass  # out of range or invalid: handled below
        else:
            if numbers.min(initial=low) >= low and numbers.max(initial=low) <= high:
                return numbers.astype(dtype)
    return np.fromiter(map(to_integer, cancellable(items)), dtype, len(items))


def decimal_numbers(packed: PackedStrings, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return the number in each string, and which are plain decimals in the range of the type."""
    decimals = parse_decimals(packed)
    if dtype.kind == "f":
        return decimals.floats().astype(dtype), decimals.is_parsed
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    numbers = np.where(decimals.is_negative, -decimals.digits, decimals.digits)
    fits = (numbers >= low) & (numbers <= min(high, 1 << 62))
    is_valid = decimals.is_parsed & ~decimals.has_point & fits
    is_valid &= ~decimals.is_negative if low == 0 else True
    return numbers.astype(dtype), is_valid


def parse_numbers(items: list[bytes], dtype: np.dtype[Any]) -> Any:
    """Parse the number in each string, ignoring surrounding white space.

    Raises:
        InvalidArgumentError: a string has no number, or one out of range; it names the first.
    """
    return _floats(items).astype(dtype) if dtype.kind == "f" else _integers(items, dtype)


@kernel("StringToNumber", make=True, host=True)
def string_to_number(out_type: np.dtype[Any]) -> Callable[[Value], Value]:
    """Parse a number from each string, ignoring surrounding white space."""
    return lambda value: parse_numbers(value.ravel().tolist(), out_type).reshape(value.shape)
