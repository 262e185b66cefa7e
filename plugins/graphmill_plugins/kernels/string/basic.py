"""Elementwise string kernels: join, case, strip, length, substrings, base64.

Semantics: tensorflow/core/kernels/string_join_op.cc, string_lower_op.cc, string_upper_op.cc,
string_strip_op.cc, string_length_op.cc, substr_op.cc, base64_ops.cc.
"""

from __future__ import annotations

import base64
import binascii
import operator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import errors
from graphmill.spi import kernel
from graphmill.spi.kernels import cancellable
from graphmill_plugins.kernels._strings import (
    check_text,
    decode,
    encode,
    map_numbers,
    map_strings,
    string_array,
)
from graphmill_plugins.kernels._support import POINTER_SIZE, SMALL_REQUEST, check_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from graphmill.spi import Value


def _check_joined(inputs: list[Value], separator: int, size: int) -> None:
    """Check that `size` joined strings fit in memory."""
    total = separator * max(len(inputs) - 1, 0) * size
    for value in inputs:
        total += sum(map(len, value.ravel().tolist())) if value.ndim else len(value.item()) * size
    check_size((total,), "the joined text")


@kernel("StringJoin", host=True)
def string_join(inputs: list[Value], separator: str) -> Value:
    """Join the inputs element by element; scalars are broadcast."""
    shape: tuple[int, ...] = ()
    for value in inputs:
        if value.ndim and shape and value.shape != shape:
            raise errors.InvalidArgumentError(
                f"Input shapes do not match: {list(shape)} vs. {list(value.shape)}"
            )
        shape = shape or value.shape
    separator_bytes = encode(separator)
    size = int(np.prod(shape, dtype=np.int64))
    _check_joined(inputs, len(separator_bytes), size)
    columns = [value.ravel().tolist() if value.ndim else [value.item()] * size for value in inputs]
    if not columns:
        return string_array([b""] * size, shape)
    if len(columns) == 2 and not separator_bytes:
        return string_array(list(map(operator.add, *columns)), shape)
    return string_array(list(map(separator_bytes.join, zip(*columns, strict=True))), shape)


def _with_case(
    value: Value, encoding: str, plain: Callable[[bytes], bytes], text: Callable[[str], str]
) -> Value:
    """Change the case of ASCII letters with `plain`, or that of all letters with `text`."""
    if encoding == "":
        return map_strings(plain, value)
    if encoding != "utf-8":
        raise errors.InvalidArgumentError(
            f"only utf-8 or '' (no encoding) is supported, received {encoding}"
        )
    return string_array(_texts_with_case(value.ravel().tolist(), text), value.shape)


def _texts_with_case(items: list[bytes], change: Callable[[str], str]) -> list[bytes]:
    """Change the case of UTF-8 texts: of all at once, unless one is malformed or has a NUL."""
    joined = b"\0".join(items)
    if items and joined.count(b"\0") == len(items) - 1:
        try:
            # A NUL ends words, as the end of a text does.
            return change(joined.decode()).encode().split(b"\0")
        except UnicodeDecodeError:
            pass
    # Invalid UTF-8 becomes U+FFFD, as in ICU. TensorFlow reads a string up to its first NUL.
    return [
        change(item.partition(b"\0")[0].decode("utf-8", "replace")).encode()
        for item in cancellable(items)
    ]


@kernel("StringLower", host=True)
def string_lower(value: Value, encoding: str) -> Value:
    """Convert ASCII letters, or with `encoding` "utf-8" all letters, to lower case."""
    return _with_case(value, encoding, bytes.lower, str.lower)


@kernel("StringUpper", host=True)
def string_upper(value: Value, encoding: str) -> Value:
    """Convert ASCII letters, or with `encoding` "utf-8" all letters, to upper case."""
    return _with_case(value, encoding, bytes.upper, str.upper)


@kernel("StringStrip", host=True)
def string_strip(value: Value) -> Value:
    """Remove ASCII white space from both ends."""
    return map_strings(bytes.strip, value)


_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))  # of UTF-8


def character_count(item: bytes) -> int:
    """Return the number of UTF-8 characters."""
    return len(item.translate(None, _CONTINUATION_BYTES))


@kernel("StringLength", host=True)
def string_length(value: Value, unit: str) -> Value:
    """Return lengths in bytes or UTF-8 characters."""
    return map_numbers(character_count if unit == "UTF8_CHAR" else len, value, np.int32)


def _byte_part(item: bytes, position: int, length: int) -> bytes:
    if not -len(item) <= position <= len(item):
        raise errors.InvalidArgumentError(
            f"pos {position} out of range for string of {len(item)} bytes: {decode(item)[:80]!r}"
        )
    start = position + len(item) if position < 0 else position
    # In C++ a negative length wraps around to a huge one.
    return item[start:] if length < 0 else item[start : start + length]


def _byte_parts(items: list[bytes], position: int, length: int) -> list[bytes]:
    """Return the substrings of many strings at one position."""
    if min(map(len, items), default=0) < abs(position):
        return [_byte_part(item, position, length) for item in items]  # raises for the first one
    stop: int | None = position + length
    if length < 0 or position < 0 <= position + length:
        stop = None
    return list(map(operator.itemgetter(slice(position, stop)), items))


_FEW_PARTS: Final = 16
"""Strings up to which taking their substrings one by one is faster."""
_LONG_TEXT: Final = 64
"""Bytes of a text from which on NumPy finds its characters faster."""


def _character_starts(item: bytes) -> Sequence[int] | Value:
    """Return the positions of the UTF-8 characters of a text, and its length."""
    if item.isascii():
        return range(len(item) + 1)
    if len(item) < _LONG_TEXT:
        starts = [index for index, byte in enumerate(item) if (byte & 0xC0) != 0x80]
        return [*starts, len(item)]
    codes = np.frombuffer(item + b"\0", np.uint8)
    return np.flatnonzero((codes & 0xC0) != 0x80)


def _character_part(item: bytes, position: int, length: int) -> bytes:
    starts = _character_starts(item)
    count = len(starts) - 1
    if not -count <= position <= count:
        raise errors.InvalidArgumentError(
            f"pos {position} out of range for string of {count} characters: {decode(item)[:80]!r}"
        )
    start = position + count if position < 0 else position
    return item[starts[start] : starts[min(count, start + max(length, 0))]]


def _parts(items: list[bytes], positions: Value, lengths: Value, unit: str) -> list[bytes]:
    """Return a substring of each string, at an int64 position and of a length of its own."""
    part = _character_part if unit == "UTF8_CHAR" else _byte_part
    texts: Sequence[bytes | str] = items
    if unit == "UTF8_CHAR":
        lengths = np.maximum(lengths, 0)
        try:
            texts = list(map(bytes.decode, cancellable(items)))
        except UnicodeDecodeError:
            return list(map(part, cancellable(items), positions.tolist(), lengths.tolist()))
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    starts = positions + sizes * (positions < 0)
    is_outside = (starts < 0) | (starts > sizes)
    if is_outside.any():
        first = int(is_outside.argmax())
        part(items[first], int(positions[first]), int(lengths[first]))  # raises
    # In C++ a negative length wraps around to a huge one.
    is_rest = (lengths < 0) | (lengths > sizes - starts)
    stops = np.where(is_rest, sizes, starts + np.where(is_rest, 0, lengths))
    slices = map(slice, starts.tolist(), stops.tolist())
    found: list[Any] = list(map(operator.getitem, cancellable(texts), slices))
    return found if texts is items else list(map(str.encode, found))


def _flat(value: Value, size: int) -> list[Any]:
    """Return the elements of a tensor; those of a scalar `size` times."""
    return value.ravel().tolist() if value.ndim else [value.item()] * size


@kernel("Substr", host=True)
def substr(
    value: Value,
    pos: Value,
    len: Value,  # noqa: A002 - the name of the input
    unit: str,
) -> Value:
    """Return `len` units of each string from `pos` on; a negative `pos` counts from the end."""
    if pos.shape != len.shape:
        raise errors.InvalidArgumentError(
            f"pos and len should have the same shape, got: {list(pos.shape)} vs. {list(len.shape)}"
        )
    if not pos.ndim and unit != "UTF8_CHAR":
        return string_array(_byte_parts(value.ravel().tolist(), int(pos), int(len)), value.shape)
    part = _character_part if unit == "UTF8_CHAR" else _byte_part
    if not pos.ndim or pos.shape == value.shape:
        items = value.ravel().tolist()
        if value.size < _FEW_PARTS:
            rows = map(part, cancellable(items), _flat(pos, value.size), _flat(len, value.size))
            return string_array(list(rows), value.shape)
        positions, lengths = (np.broadcast_to(v, value.shape).ravel() for v in (pos, len))
        parts = _parts(items, positions.astype(np.int64), lengths.astype(np.int64), unit)
        return string_array(parts, value.shape)
    try:
        texts, starts, sizes = np.broadcast_arrays(value, pos, len)
    except ValueError:
        raise errors.InvalidArgumentError(
            f"Substr cannot broadcast input shape {list(value.shape)} with pos shape "
            f"{list(pos.shape)}"
        ) from None
    check_size(texts.shape, "the substrings", itemsize=POINTER_SIZE)
    each = zip(texts.ravel().tolist(), starts.ravel().tolist(), sizes.ravel().tolist(), strict=True)
    parts = _within_budget((part(*row) for row in cancellable(each)), "the substrings")
    return string_array(parts, texts.shape)


def _within_budget(items: Iterable[bytes], what: str) -> list[bytes]:
    """Return strings as a list, and check the memory budget while they grow.

    Raises:
        ResourceExhaustedError: they do not fit in memory.
    """
    found, total, checked = [], 0, SMALL_REQUEST
    for item in items:
        found.append(item)
        total += len(item)
        if total > checked:
            check_size((total,), what)
            checked = total + SMALL_REQUEST
    return found


@kernel("EncodeBase64", make=True, host=True)
def encode_base64(pad: bool) -> Callable[[Value], Value]:
    """Encode as web-safe base64, padded with `=` if `pad`."""

    def encode_all(value: Value) -> Value:
        # `b2a_base64` ends each result with a line feed.
        check_text(value, what="the encoded text")
        lines = b"".join(map(binascii.b2a_base64, value.ravel().tolist()))
        lines = lines.translate(_TO_WEB_SAFE, b"" if pad else b"=")
        return string_array(lines.split(b"\n")[:-1], value.shape)

    return encode_all


_TO_WEB_SAFE = bytes.maketrans(b"+/", b"-_")
_FROM_WEB_SAFE = bytes.maketrans(b"-_", b"+/")
_WEB_SAFE = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def _decode_base64_one(item: bytes) -> bytes:
    body = item.rstrip(b"=")
    padding = len(item) - len(body)
    bad = len(body) % 4 == 1 or padding > 2 or (padding and len(item) % 4)
    if bad or body.translate(None, _WEB_SAFE):
        raise errors.InvalidArgumentError(
            f"Invalid character or length found in base64: {decode(item)[:80]!r}"
        )
    try:
        return base64.urlsafe_b64decode(body + b"=" * (-len(body) % 4))
    except binascii.Error as error:
        raise errors.InvalidArgumentError(f"Invalid base64: {error}") from None


@kernel("DecodeBase64", host=True)
def decode_base64(value: Any) -> Value:
    """Decode web-safe base64, padded or not."""
    items = value.ravel().tolist()
    bodies = [item.rstrip(b"=") for item in items] if b"=" in b"".join(items) else items
    sizes = np.fromiter(map(len, bodies), np.int64, len(items))
    bad = sizes & 3 == 1
    if bodies is not items:
        padding = np.fromiter(map(len, items), np.int64, len(items)) - sizes
        bad |= (padding > 2) | ((padding > 0) & ((sizes + padding) & 3 > 0))
    if bad.any() or b"".join(bodies).translate(None, _WEB_SAFE):
        return map_strings(_decode_base64_one, value)  # raises for the first invalid one
    # Excess padding is ignored.
    lines = b"==\n".join([*bodies, b""]).translate(_FROM_WEB_SAFE).split(b"\n")[:-1]
    return string_array(list(map(binascii.a2b_base64, lines)), value.shape)
