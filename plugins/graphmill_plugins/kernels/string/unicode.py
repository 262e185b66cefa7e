"""Unicode kernels: UnicodeDecode, UnicodeEncode, UnicodeTranscode.

Semantics: tensorflow/core/kernels/unicode_ops.cc. Python's codecs replace ICU's converters; both
split malformed UTF-8 in the same way.
"""

from __future__ import annotations

import codecs
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from graphmill import errors
from graphmill.spi import kernel
from graphmill.spi.kernels import cancellable, check_cancelled
from graphmill_plugins.kernels._strings import map_strings, string_array
from graphmill_plugins.kernels._support import check_size
from graphmill_plugins.kernels.packed_strings import PackedStrings

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Value


_PIECE: Final = 1 << 8
_STATELESS: Final = frozenset(
    ("ascii", "utf-8", "utf-16-be", "utf-16-le", "utf-32-be", "utf-32-le")
)
_CHARACTER_SIZE: Final = 160
"""Bytes of a character while strings are decoded one by one: numbers in a tuple, and its text."""
_DEFAULT_REPLACEMENT: Final = 0xFFFD
_MALFORMED: Final = "graphmill.malformed"
"""An error handler of codecs that replaces n malformed bytes by the surrogate U+D800 + n."""
_SURROGATE: Final = 0xD800
_MAX_MALFORMED: Final = 8
"""More bytes than any codec without state takes for one malformed character."""
_BIG_ENDIAN: Final = {"utf-16": "utf-16-be", "utf-32": "utf-32-be"}
_MARKS: Final = {
    "utf-16": ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")),
    "utf-32": ((codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be")),
}


class _Policy(NamedTuple):
    """The handling of malformed input and control characters."""

    errors: str
    replacement: int
    replaces_controls: bool


def _policy(errors_: str, replacement_char: int, replace_control_characters: bool) -> _Policy:
    if not 0 <= replacement_char <= 0x10FFFF or 0xD800 <= replacement_char <= 0xDFFF:
        raise errors.InvalidArgumentError(
            f"replacement_char {replacement_char} is not a Unicode character"
        )
    return _Policy(errors_, replacement_char, replace_control_characters)


def _mark_malformed(error: UnicodeError) -> tuple[str, int]:
    """Handle malformed bytes as `_MALFORMED` says; well-formed text has no surrogates."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    check_cancelled()
    return chr(_SURROGATE + error.end - error.start), error.end


codecs.register_error(_MALFORMED, _mark_malformed)


def _malformed() -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError("Invalid formatting on input string")


def _is_surrogate(codes: Value) -> Value:
    return (codes & ~0x7FF) == _SURROGATE


def _encoded_sizes(codes: Value, codec: str) -> Value:
    """Return the bytes of each character in an encoding without state, int64."""
    if codec == "utf-8":
        return np.int64(1) + (codes >= 0x80) + (codes >= 0x800) + (codes >= 0x10000)
    if codec.startswith("utf-16"):
        return np.int64(2) + 2 * (codes >= 0x10000)
    return np.full(len(codes), 1 if codec == "ascii" else 4, np.int64)


def _codec(name: str, what: str) -> str:
    try:
        codec = codecs.lookup(name).name
    except LookupError:
        raise errors.InvalidArgumentError(
            f"Could not create converter for {what} encoding: {name}"
        ) from None
    if what == "output":  # ICU writes no byte-order mark, and big-endian
        return _BIG_ENDIAN.get(codec, codec)
    return codec


def _decoded_parts(item: bytes, codec: str) -> list[tuple[str, int]]:
    """Split bytes into pairs of well-formed text and the size of the malformed bytes after it."""
    parts: list[tuple[str, int]] = []
    start, size = 0, len(item)
    while True:
        check_cancelled()
        # Each error copies the input, so codecs without state decode it in pieces.
        stop = start + _PIECE if codec in _STATELESS and parts else size
        piece = item[start:stop]
        try:
            parts.append((piece.decode(codec), 0))
            start += len(piece)
            if start >= size:
                return parts
        except UnicodeDecodeError as error:
            is_cut = stop < size and error.end == len(piece)  # the next piece may continue it
            parts.append((piece[: error.start].decode(codec), error.end - error.start))
            start += error.end
            if is_cut:
                parts[-1] = (parts[-1][0], 0)
                start -= error.end - error.start


def _order(item: bytes, codec: str) -> tuple[str, int]:
    """Return the codec with the byte order of a string, and the size of its byte-order mark.

    Only an encoding without an order, such as UTF-16, has a mark; in UTF-16BE it is a character.
    """
    for mark, marked in _MARKS.get(codec, ()):
        if item.startswith(mark):
            return marked, len(mark)
    return _BIG_ENDIAN.get(codec, codec), 0


def _characters(item: bytes, codec: str, policy: _Policy) -> list[tuple[int, int]]:
    """Return code point and byte offset of each character after applying the policy."""
    characters: list[tuple[int, int]] = []
    codec, mark = _order(item, codec)
    offset = 0
    for text, malformed in _decoded_parts(item[mark:], codec):
        for char in cancellable(text):
            code = ord(char)
            is_control = policy.replaces_controls and code < 0x20
            if not is_control or policy.errors != "ignore":
                characters.append((policy.replacement if is_control else code, offset))
            offset += len(char.encode(codec)) + mark
            mark = 0  # it belongs to the first character
        if not malformed:
            continue
        if policy.errors == "strict":
            raise _malformed()
        if policy.errors == "replace":
            characters.append((policy.replacement, offset))
        offset += malformed
    return characters


def _decode_utf_8(
    items: list[bytes], policy: _Policy, splits_type: np.dtype[Any]
) -> tuple[Value, Value, Value] | None:
    """Decode all strings in one call; None if one is malformed or a character is dropped."""
    check_size((sum(map(len, items)),), "the list of characters", itemsize=32)
    data, sizes = b"".join(items), PackedStrings(items).sizes
    first = np.cumsum(sizes) - sizes
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    # If a string begins with a continuation byte, the previous string ends in an incomplete
    # character.
    is_start = (np.frombuffer(data + b" ", np.uint8) & 0xC0) != 0x80
    if not is_start[first].all():
        return None
    codes = np.frombuffer(text.encode("utf-32-le"), "<i4").astype(np.int32)
    if policy.replaces_controls and (codes < 0x20).any():
        if policy.errors == "ignore":
            return None
        codes = np.where(codes < 0x20, np.int32(policy.replacement), codes)
    before = np.cumsum(is_start) - is_start  # characters before each byte
    splits = np.append(before[first], len(codes)).astype(splits_type)
    return splits, codes, np.flatnonzero(is_start[:-1]) - np.repeat(first, splits[1:] - splits[:-1])


def _decode_stateless(
    items: list[bytes], codec: str, policy: _Policy, splits_type: np.dtype[Any]
) -> tuple[Value, Value, Value]:
    """Decode strings in an encoding without state or byte-order mark, malformed ones as well."""
    texts = [item.decode(codec, _MALFORMED) for item in cancellable(items)]
    rows = _positions(np.fromiter(map(len, texts), np.int64, len(texts)))
    codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), "<i4")
    is_malformed = _is_surrogate(codes)
    if policy.errors == "strict" and is_malformed.any():
        raise _malformed()
    sizes = np.where(is_malformed, codes - _SURROGATE, _encoded_sizes(codes, codec))
    ends = _positions(sizes)
    offsets = ends[:-1] - np.repeat(ends[rows[:-1]], np.diff(rows))
    is_replaced = is_malformed | (policy.replaces_controls & (codes < 0x20))
    if policy.errors == "ignore":
        is_kept = ~is_replaced
        splits = _positions(is_kept)[rows].astype(splits_type)
        return splits, codes[is_kept].astype(np.int32), offsets[is_kept]
    codes = np.where(is_replaced, np.int32(policy.replacement), codes).astype(np.int32)
    return rows.astype(splits_type), codes, offsets


def _positions(sizes: Value) -> Value:
    """Return where each of some parts begins, and where the last one ends."""
    positions = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=positions[1:])
    return positions


def _decode_all(
    value: Value, encoding: str, policy: _Policy, splits_type: np.dtype[Any]
) -> tuple[Value, Value, Value]:
    codec = _codec(encoding, "input")
    if codec == "utf-8":
        decoded = _decode_utf_8(value.ravel().tolist(), policy, splits_type)
        if decoded is not None:
            return decoded
    check_size((sum(map(len, value.flat)),), "the list of characters", itemsize=_CHARACTER_SIZE)
    items = value.ravel().tolist()
    if not any(_order(item, codec)[1] for item in items if codec in _MARKS):
        codec = _BIG_ENDIAN.get(codec, codec)
    if codec in _STATELESS:
        return _decode_stateless(items, codec, policy, splits_type)
    rows = [_characters(item, codec, policy) for item in items]
    splits = np.zeros(len(rows) + 1, splits_type)
    np.cumsum([len(row) for row in rows], out=splits[1:])
    codes = np.array([code for row in rows for code, _ in row], np.int32)
    offsets = np.array([offset for row in rows for _, offset in row], np.int64)
    return splits, codes, offsets


@kernel("UnicodeDecode", host=True, dynamic_shape=True)
def unicode_decode(
    value: Value,
    input_encoding: str,
    errors: str,
    replacement_char: int,
    replace_control_characters: bool,
    Tsplits: np.dtype[Any],
) -> tuple[Value, Value]:
    """Return row splits and code points of each string."""
    policy = _policy(errors, replacement_char, replace_control_characters)
    return _decode_all(value, input_encoding, policy, Tsplits)[:2]


@kernel("UnicodeDecodeWithOffsets", host=True, dynamic_shape=True)
def unicode_decode_with_offsets(
    value: Value,
    input_encoding: str,
    errors: str,
    replacement_char: int,
    replace_control_characters: bool,
    Tsplits: np.dtype[Any],
) -> tuple[Value, Value, Value]:
    """Return row splits, code points and byte offsets of each string."""
    policy = _policy(errors, replacement_char, replace_control_characters)
    return _decode_all(value, input_encoding, policy, Tsplits)


def _encode_codes(codes: list[int], codec: str, policy: _Policy) -> bytes:
    """Encode one string of code points."""
    return _encode_rows(np.array(codes, np.int32), np.array([0, len(codes)]), codec, policy)[0]


def _encode_rows(codes: Value, splits: Value, codec: str, policy: _Policy) -> list[bytes]:
    """Encode the code points of each row, in an encoding without state."""
    is_valid = (codes >= 0) & (codes <= 0x10FFFF) & ~_is_surrogate(codes)
    if not is_valid.all():
        if policy.errors == "strict":
            raise errors.InvalidArgumentError(
                "Code point is out of range for Unicode, or is a surrogate."
            )
        if policy.errors == "replace":
            codes = np.where(is_valid, codes, np.int32(policy.replacement))
        else:
            codes, splits = codes[is_valid], _positions(is_valid)[splits]
    text = codes.astype("<u4").tobytes().decode("utf-32-le")
    if codec == "utf-8" and len(splits) == len(text) + 1 and (np.diff(splits) == 1).all():
        return list(map(str.encode, cancellable(text)))
    data = text.encode(codec)
    bounds = _positions(_encoded_sizes(codes, codec))[splits].tolist()
    return list(map(data.__getitem__, map(slice, bounds[:-1], cancellable(bounds[1:]))))


def _check_vectors(values: Value, splits: Value) -> None:
    if values.ndim != 1 or splits.ndim != 1:
        raise errors.InvalidArgumentError(
            "input_values and input_splits must be vectors, got shapes "
            f"{list(values.shape)} and {list(splits.shape)}"
        )


@kernel("UnicodeEncode", host=True)
def unicode_encode(
    input_values: Value,
    input_splits: Value,
    errors: str,
    output_encoding: str,
    replacement_char: int,
) -> Value:
    """Encode each ragged row of code points as a string."""
    policy = _policy(errors, replacement_char, False)
    _check_vectors(input_values, input_splits)
    splits = input_splits.tolist()
    _check_rows(splits, len(input_values))
    codec = _codec(output_encoding, "output")
    return string_array(_encode_rows(input_values, input_splits, codec, policy))


def _check_rows(splits: list[int], size: int) -> None:
    if not splits:
        raise errors.InvalidArgumentError("Input_splits should contain elements, but was 0")
    if splits[0] != 0:
        raise errors.InvalidArgumentError(
            f"First value in input_splits must be zero, got {splits[0]}"
        )
    if splits[-1] != size:
        raise errors.InvalidArgumentError(
            f"Last value in input_splits must be equal to length of input_tensor: {splits[-1]} "
            f"vs. {size}"
        )
    if any(start > stop for start, stop in pairwise(splits)):
        raise errors.InvalidArgumentError(f"Values in input_splits must not decrease, got {splits}")


def _replacements(policy: _Policy) -> dict[int, int | None]:
    """Return what replaces malformed bytes, as `_MALFORMED` marks them, and control characters."""
    replaced = [_SURROGATE + size for size in range(_MAX_MALFORMED)]
    if policy.replaces_controls:
        replaced += range(0x20)
    return dict.fromkeys(replaced, None if policy.errors == "ignore" else policy.replacement)


@kernel("UnicodeTranscode", make=True, host=True)
def unicode_transcode(
    input_encoding: str,
    output_encoding: str,
    errors: str,
    replacement_char: int,
    replace_control_characters: bool,
) -> Callable[[Value], Value]:
    """Convert strings to another encoding."""
    policy = _policy(errors, replacement_char, replace_control_characters)
    source, target = _codec(input_encoding, "input"), _codec(output_encoding, "output")
    replacements = _replacements(policy)
    handler = policy.errors
    if handler == "replace" and policy.replacement != _DEFAULT_REPLACEMENT:
        handler = "strict"  # Python's handlers know no other replacement

    def transcode(item: bytes) -> bytes:
        codec, mark = _order(item, source)
        try:
            text = item[mark:].decode(codec, handler if codec in _STATELESS else "strict")
        except UnicodeDecodeError:
            if policy.errors == "strict":
                raise _malformed() from None
            if codec not in _STATELESS:
                codes = [code for code, _ in _characters(item, source, policy)]
                return _encode_codes(codes, target, policy)
            text = item[mark:].decode(codec, _MALFORMED)
        else:
            if not (policy.replaces_controls and text and min(text) < " "):
                return text.encode(target)
        return text.translate(replacements).encode(target)

    return lambda value: map_strings(transcode, value)
