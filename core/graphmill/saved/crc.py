"""CRC-32C checksums, masked as TensorFlow stores them.

The CRC of data that contains CRCs is weak, so files store a masked form: rotated, plus a constant.
Semantics: tensorflow/core/lib/hash/crc32c.h.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import UnimplementedError

if TYPE_CHECKING:
    from typing import TypeAlias

    Data: TypeAlias = bytes | bytearray | memoryview

_MASK_DELTA = 0xA282EAD8
_UINT32 = 0xFFFFFFFF


def extend(crc: int, data: Data) -> int:
    """Return the CRC-32C of bytes whose CRC is `crc`, followed by `data`.

    Raises:
        UnimplementedError: google-crc32c is not installed.
    """
    # The library accepts bytes and arrays, but not memoryviews.
    content = data if isinstance(data, bytes) else np.frombuffer(data, np.uint8)
    result: int = _library().extend(crc, content)
    return result


def value(data: Data) -> int:
    """Return the CRC-32C of `data`."""
    return extend(0, data)


def mask(crc: int) -> int:
    """Return the masked form of `crc`, which is stored in files."""
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & _UINT32


def unmask(masked: int) -> int:
    """Return the checksum whose masked form is `masked`."""
    rotated = (masked - _MASK_DELTA) & _UINT32
    return (rotated >> 17 | rotated << 15) & _UINT32


@cache
def _library() -> Any:
    try:
        import google_crc32c
    except ImportError as error:
        raise UnimplementedError(
            "writing and verifying checkpoints needs CRC-32C, but the package google-crc32c is "
            "not installed; pip install google-crc32c (to read a checkpoint without verification, "
            "open it with check=False)"
        ) from error
    return google_crc32c
