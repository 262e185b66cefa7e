"""Encodings sort like the encoded values."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill import errors
from graphmill.saved import ordered_code

if TYPE_CHECKING:
    from collections.abc import Callable

signed = st.integers(-(2**63), 2**63 - 1)
unsigned = st.integers(0, 2**64 - 1)
strings = st.binary(max_size=20) | st.text("\0\1a", max_size=6).map(str.encode)

FORMS = [
    pytest.param(ordered_code.encode_signed, ordered_code.decode_signed, signed, id="signed"),
    pytest.param(ordered_code.encode_number, ordered_code.decode_number, unsigned, id="number"),
    pytest.param(ordered_code.encode_string, ordered_code.decode_string, strings, id="string"),
]


@pytest.mark.parametrize(("encode", "decode", "values"), FORMS)
def test_codes_are_decoded_again(encode: Callable[[Any], bytes], decode: Any, values: Any) -> None:
    @given(values)
    def check(value: Any) -> None:
        code = b"before" + encode(value)
        assert decode(code + b"after", 6) == (value, len(code))

    check()


@pytest.mark.parametrize(("encode", "decode", "values"), FORMS)
def test_codes_are_ordered_as_their_values(
    encode: Callable[[Any], bytes], decode: Any, values: Any
) -> None:
    @given(values, values)
    def check(left: Any, right: Any) -> None:
        assert (encode(left) < encode(right)) == (left < right)

    check()


@pytest.mark.parametrize(("encode", "decode", "values"), FORMS)
def test_bad_codes_are_typed_errors(encode: Any, decode: Any, values: Any) -> None:
    @given(st.binary(max_size=12))
    def check(code: bytes) -> None:
        with contextlib.suppress(errors.DataLossError):
            decode(code, 0)

    check()


def test_codes_are_those_of_tensorflow() -> None:
    assert ordered_code.encode_signed(-1) == b"\x7f"
    assert ordered_code.encode_signed(0x424242).hex() == "f0424242"
    assert ordered_code.encode_signed(-0x800).hex() == "3800"
    assert ordered_code.encode_number(0) == b"\0"
    assert ordered_code.encode_number(0x1234) == b"\2\x12\x34"
    assert ordered_code.encode_string(b"a\0\xff\1") == b"a\0\xff\xff\0\1\0\1"
