"""Integers in strings are accepted and refused as TensorFlow's parser does."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels.parsing.number import parse_numbers

MANY = 200  # strings that are parsed together


@pytest.mark.parametrize("count", [1, MANY])
@pytest.mark.parametrize(
    ("text", "dtype", "number"),
    [
        (b" +12\t", np.int32, 12),
        (b"-2147483648", np.int32, -(2**31)),
        (b"9223372036854775807", np.int64, 2**63 - 1),
        (b"18446744073709551615", np.uint64, 2**64 - 1),
        (b"007", np.uint8, 7),
    ],
)
def test_integers_are_parsed(text: bytes, dtype: type, number: int, count: int) -> None:
    found = parse_numbers([text] * count, np.dtype(dtype))
    assert found.dtype == dtype
    assert found.tolist() == [number] * count


@pytest.mark.parametrize("count", [0, MANY])
@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        (b"1_000", np.int32),
        (b"", np.int32),
        (b"1.0", np.int64),
        (b"2147483648", np.int32),
        (b"-2147483649", np.int32),
        (b"9223372036854775808", np.int64),
        (b"-0", np.uint32),
        (b"256", np.uint8),
        ("٣".encode(), np.int32),
    ],
)
def test_what_is_no_integer_of_the_type_is_refused(text: bytes, dtype: type, count: int) -> None:
    with pytest.raises(InvalidArgumentError, match="could not correctly convert string"):
        parse_numbers([b" 1"] * count + [text], np.dtype(dtype))
