"""CRC-32C checksums, masked as TensorFlow stores them.

A checksum of data that itself contains checksums is weak, so files hold a rotated and shifted
form. Semantics: tensorflow/core/lib/hash/crc32c.h.
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
    """Return the CRC-32C of some bytes with CRC `crc`, followed by `data`.

    Raises:
        UnimplementedError: google-crc32c is not installed.
    """
    # The library takes bytes and arrays, but no memoryviews.
    content = data if isinstance(data, bytes) else np.frombuffer(data, np.uint8)
    result: int = _library().extend(crc, content)
    return result


def value(data: Data) -> int:
    """Return the CRC-32C of `data`."""
    return extend(0, data)


def mask(crc: int) -> int:
    """Return the form of `crc` that is stored in files."""
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & _UINT32


def unmask(masked: int) -> int:
    """Return the checksum that `mask` made `masked` from."""
    rotated = (masked - _MASK_DELTA) & _UINT32
    return (rotated >> 17 | rotated << 15) & _UINT32


@cache
def _library() -> Any:
    try:
        import google_crc32c
    except ImportError as error:
        raise UnimplementedError(
            "checkpoints are written and checked with CRC-32C, and the package google-crc32c "
            "is not installed; pip install google-crc32c (to read one without checks, open it "
            "with check=False)"
        ) from error
    return google_crc32c
