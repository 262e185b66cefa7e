"""Encodings whose byte order is the order of what they encode.

The keys of tensor slices in a checkpoint are made of these. Semantics:
tensorflow/core/lib/strings/ordered_code.cc.
"""

from __future__ import annotations

from graphmill.errors import DataLossError

_ESCAPED_NUL, _ESCAPED_FF = b"\x00\xff", b"\xff\x00"
_TERMINATOR = b"\x00\x01"


def encode_number(value: int) -> bytes:
    """Return an unsigned number: how many bytes it has, then those, most significant first."""
    size = (value.bit_length() + 7) // 8
    return bytes([size]) + value.to_bytes(size, "big")


def encode_string(value: bytes) -> bytes:
    """Return a string of any bytes with a terminator that cannot occur in it."""
    parts = value.split(b"\x00")
    return _ESCAPED_NUL.join(part.replace(b"\xff", _ESCAPED_FF) for part in parts) + _TERMINATOR


def encode_signed(value: int) -> bytes:
    """Return a signed number of 64 bits; one byte for -64 to 63, then one more per 7 bits.

    The leading bits of a number >= 0 are as many ones as it has bytes, then a zero; a negative
    number's are the complement.
    """
    bits = (~value if value < 0 else value).bit_length()
    size = bits // 7 + 1
    header = ((1 << size) - 1) << (7 * size)  # `size` ones at the top of 8 * size bits
    return (value & ((1 << 8 * size) - 1) ^ header).to_bytes(size, "big")


def decode_number(code: bytes, position: int) -> tuple[int, int]:
    """Return the unsigned number at `position`, and the position after it.

    Raises:
        DataLossError: there is none.
    """
    end = position + 1 + (code[position] if position < len(code) else len(code))
    if end > len(code):
        raise DataLossError(f"no number at byte {position} of key {code!r}")
    return int.from_bytes(code[position + 1 : end], "big"), end


def decode_string(code: bytes, position: int) -> tuple[bytes, int]:
    """Return the string at `position`, and the position after its terminator.

    Raises:
        DataLossError: there is none.
    """
    out = bytearray()
    while position + 1 < len(code):
        pair = code[position : position + 2]
        if pair == _TERMINATOR:
            return bytes(out), position + 2
        if pair in (_ESCAPED_NUL, _ESCAPED_FF):
            position += 1
        elif pair[:1] in (b"\x00", b"\xff"):
            break
        out += pair[:1]
        position += 1
    raise DataLossError(f"no string at byte {position} of key {code!r}")


def decode_signed(code: bytes, position: int) -> tuple[int, int]:
    """Return the signed number at `position`, and the position after it.

    Raises:
        DataLossError: there is none.
    """
    head = int.from_bytes(code[position : position + 2].ljust(2, b"\0"), "big")
    is_negative = not head & 0x8000
    ones = ~head & 0xFFFF if is_negative else head
    size = 16 - (~ones & 0xFFFF).bit_length()  # leading ones
    end = position + size
    if position >= len(code) or size > 10 or end > len(code):
        raise DataLossError(f"no number at byte {position} of key {code!r}")
    value = int.from_bytes(code[position:end], "big") ^ ((1 << size) - 1) << (7 * size)
    return value - (1 << 8 * size) if is_negative else value, end
