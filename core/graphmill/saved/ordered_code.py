"""Order-preserving encodings: comparing encoded bytes is the same as comparing values.

Checkpoints use them for the keys of tensor slices. Semantics:
tensorflow/core/lib/strings/ordered_code.cc.
"""

from __future__ import annotations

from graphmill.errors import DataLossError

_ESCAPED_NUL, _ESCAPED_FF = b"\x00\xff", b"\xff\x00"
_TERMINATOR = b"\x00\x01"


def encode_number(value: int) -> bytes:
    """Encode an unsigned number: its number of bytes, then the bytes, most significant first."""
    size = (value.bit_length() + 7) // 8
    return bytes([size]) + value.to_bytes(size, "big")


def encode_string(value: bytes) -> bytes:
    """Encode a byte string: escaped, with a terminator that cannot occur in it."""
    parts = value.split(b"\x00")
    return _ESCAPED_NUL.join(part.replace(b"\xff", _ESCAPED_FF) for part in parts) + _TERMINATOR


def encode_signed(value: int) -> bytes:
    """Encode a signed 64-bit number: one byte for -64 to 63, and one more for each 7 bits.

    An encoded number >= 0 starts with as many one bits as the encoding has bytes, then a zero bit;
    an encoded negative number starts with the complement.
    """
    bits = (~value if value < 0 else value).bit_length()
    size = bits // 7 + 1
    header = ((1 << size) - 1) << (7 * size)  # `size` ones at the top of 8 * size bits
    return (value & ((1 << 8 * size) - 1) ^ header).to_bytes(size, "big")


def decode_number(code: bytes, position: int) -> tuple[int, int]:
    """Decode the unsigned number at `position`; return it and the position after it.

    Raises:
        DataLossError: there is no valid number at `position`.
    """
    end = position + 1 + (code[position] if position < len(code) else len(code))
    if end > len(code):
        raise DataLossError(f"expected a number at byte {position} of key {code!r}")
    return int.from_bytes(code[position + 1 : end], "big"), end


def decode_string(code: bytes, position: int) -> tuple[bytes, int]:
    """Decode the string at `position`; return it and the position after its terminator.

    Raises:
        DataLossError: there is no valid string at `position`.
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
    raise DataLossError(f"expected a string at byte {position} of key {code!r}")


def decode_signed(code: bytes, position: int) -> tuple[int, int]:
    """Decode the signed number at `position`; return it and the position after it.

    Raises:
        DataLossError: there is no valid number at `position`.
    """
    head = int.from_bytes(code[position : position + 2].ljust(2, b"\0"), "big")
    is_negative = not head & 0x8000
    ones = ~head & 0xFFFF if is_negative else head
    size = 16 - (~ones & 0xFFFF).bit_length()  # leading ones
    end = position + size
    if position >= len(code) or size > 10 or end > len(code):
        raise DataLossError(f"expected a number at byte {position} of key {code!r}")
    value = int.from_bytes(code[position:end], "big") ^ ((1 << size) - 1) << (7 * size)
    return value - (1 << 8 * size) if is_negative else value, end
