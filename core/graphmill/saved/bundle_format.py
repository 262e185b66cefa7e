"""The files and encodings of a tensor bundle (a checkpoint of format V2).

A bundle `PREFIX` consists of a table `PREFIX.index` with a header and entries, and data files
`PREFIX.data-00000-of-00002` with the values one after another. Numbers are stored as in memory;
strings as their lengths, a checksum of the lengths, and their bytes; variants as one message after
another, each between its length and a checksum of everything up to there.

Semantics: tensorflow/core/util/tensor_bundle/tensor_bundle.cc, naming.cc.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import DataLossError
from graphmill.proto.wire import read_varint, write_varint
from graphmill.saved import crc

if TYPE_CHECKING:
    from collections.abc import Iterable

VERSION = 1
"""The format version that graphmill writes, and the newest one that it reads."""

HEADER_KEY = b""
_MAX_UINT32 = (1 << 32) - 1
_CHECKSUM_SIZE = 4


def index_path(prefix: str) -> str:
    """Return the path of a bundle's table."""
    return f"{prefix}.index"


def data_path(prefix: str, shard: int, num_shards: int) -> str:
    """Return the path of one of a bundle's data files."""
    return f"{prefix}.data-{shard:05d}-of-{num_shards:05d}"


def key_of(name: str) -> bytes:
    """Return the key of a tensor's entry; names that are not UTF-8 are preserved."""
    return name.encode("utf-8", "surrogateescape")


def name_of(key: bytes) -> str:
    """Return the name of the tensor with the key `key`."""
    return key.decode("utf-8", "surrogateescape")


def encode_strings(values: Iterable[bytes]) -> tuple[bytes, int]:
    """Return the encoding of strings in a data file, and the encoding's CRC-32C."""
    strings = list(values)
    lengths = [len(string) for string in strings]
    total = crc.value(_length_words(lengths, "<"))
    checksum = struct.pack("<I", crc.mask(total))
    content = b"".join(strings)
    total = crc.extend(crc.extend(total, checksum), content)
    return b"".join([*map(write_varint, lengths), checksum, content]), total


def decode_strings(
    content: bytes, count: int, *, swapped: bool, check: bool
) -> tuple[np.ndarray[Any, Any], int]:
    """Decode strings to a 1-D object array; return it and the CRC-32C (0 without `check`).

    Args:
        content: the encoding.
        count: number of strings.
        swapped: whether it was written on a machine of the other endianness.
        check: whether to compute checksums.

    Raises:
        DataLossError: the encoding is damaged.
    """
    strings = np.empty(count, object)
    if not content and not count:
        return strings, 0
    lengths, position = [], 0
    for _ in range(count):
        length, position = read_varint(content, position, len(content))
        lengths.append(length)
    checksum = content[position : position + _CHECKSUM_SIZE]
    start = position + _CHECKSUM_SIZE
    if start + sum(lengths) != len(content):
        raise DataLossError(
            f"the lengths of the strings add up to {sum(lengths)} bytes, but "
            f"{len(content) - start} bytes are stored"
        )
    total = _check_lengths(lengths, checksum, ">" if swapped else "<") if check else 0
    for index, length in enumerate(lengths):
        strings[index] = content[start : start + length]
        start += length
    if check:
        total = crc.extend(crc.extend(total, checksum), content[position + _CHECKSUM_SIZE :])
    return strings, total


def _check_lengths(lengths: list[int], checksum: bytes, order: str) -> int:
    """Return the CRC of the lengths; raise DataLossError if it differs from `checksum`."""
    total = crc.value(_length_words(lengths, order))
    stored = crc.unmask(struct.unpack(f"{order}I", checksum)[0])
    if stored != total:
        raise DataLossError(
            f"The length checksum does not match: expected {stored:08d} but actual is {total:08d}"
        )
    return total


def _length_words(lengths: list[int], order: str) -> bytes:
    """Return the bytes over which lengths are checksummed: 4 each, 8 for lengths >= 4 GiB."""
    if max(lengths, default=0) <= _MAX_UINT32:
        return np.array(lengths, f"{order}u4").tobytes()
    return b"".join(
        struct.pack(f"{order}I" if length <= _MAX_UINT32 else f"{order}Q", length)
        for length in lengths
    )


def encode_messages(messages: Iterable[bytes]) -> tuple[bytes, int]:
    """Return the encoding of the messages of variants, and the encoding's CRC-32C."""
    parts, total = [], 0
    for message in messages:
        total = crc.extend(crc.extend(total, struct.pack("<Q", len(message))), message)
        checksum = struct.pack("<I", crc.mask(total))
        total = crc.extend(total, checksum)
        parts += [write_varint(len(message)), message, checksum]
    return b"".join(parts), total


def decode_messages(
    content: bytes, count: int, *, swapped: bool, check: bool
) -> tuple[list[bytes], int]:
    """Return the messages of variants, and the CRC-32C (0 without `check`).

    Args:
        content: the encoding.
        count: number of variants.
        swapped: whether it was written on a machine of the other endianness.
        check: whether to compute checksums.

    Raises:
        DataLossError: the encoding is damaged.
    """
    messages: list[bytes] = []
    total = position = 0
    order = ">" if swapped else "<"
    for index in range(count):
        length, start = read_varint(content, position, len(content))
        end = start + length
        position = end + _CHECKSUM_SIZE
        message, checksum = content[start:end], content[end:position]
        if len(checksum) < _CHECKSUM_SIZE:
            raise DataLossError(f"variant {index} of {count} is truncated")
        if check:
            total = crc.extend(crc.extend(total, struct.pack(f"{order}Q", length)), message)
            stored = crc.unmask(struct.unpack(f"{order}I", checksum)[0])
            if stored != total:
                raise DataLossError(
                    f"the checksum of variant {index} does not match: expected {stored:08x} but "
                    f"actual is {total:08x}"
                )
            total = crc.extend(total, checksum)
        messages.append(message)
    if position != len(content):
        raise DataLossError(
            f"{count} variants have {position} bytes, but {len(content)} bytes are stored"
        )
    return messages, total


def swap_bytes(values: np.ndarray[Any, Any]) -> None:
    """Reverse, in place, the bytes of every number in `values` (each half of a complex one)."""
    width = values.dtype.itemsize // (2 if values.dtype.kind == "c" else 1)
    values.reshape(-1).view(f"u{width}").byteswap(inplace=True)


def count_elements(shape: Iterable[int]) -> int:
    """Return the number of elements of a tensor of shape `shape`."""
    return math.prod(shape)
