"""Tensors as bytes in the Open Inference Protocol: raw contents over gRPC, binary data over HTTP.

Numbers are little-endian, in row-major order. Each element of BYTES is preceded by its length in
four bytes.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from graphmill.dtypes import DType

_LENGTH: Final = struct.Struct("<I")


def from_raw(name: str, data: bytes, dtype: DType) -> NDArray[Any]:
    """Return the elements of an input as a vector.

    Raises:
        InvalidArgumentError: the bytes end within an element.
    """
    if dtype is dtypes.string:
        return object_vector(_split_texts(name, data))
    if len(data) % dtype.size:
        raise InvalidArgumentError(
            f"input {name!r} of {dtype.name} has {len(data)} bytes, "
            f"which is not a multiple of {dtype.size}"
        )
    return np.frombuffer(data, dtype.as_numpy_dtype)


def to_raw(array: NDArray[Any], dtype: DType) -> bytes:
    """Return the bytes of an output."""
    if dtype is not dtypes.string:
        return np.ascontiguousarray(array).tobytes()
    return b"".join(_LENGTH.pack(len(text)) + text for text in elements(array, dtype))


def elements(array: NDArray[Any], dtype: DType) -> list[Any]:
    """Return the elements of an output in row-major order; texts as bytes."""
    values: list[Any] = array.reshape(-1).tolist()
    if dtype is dtypes.string:
        return [text.encode("utf-8") if isinstance(text, str) else text for text in values]
    return values


def dtype_of(array: NDArray[Any]) -> DType:
    """Return the type of an output."""
    is_text = array.dtype.hasobject or array.dtype.kind in "SU"
    return dtypes.string if is_text else dtypes.as_dtype(array.dtype)


def object_vector(values: list[bytes]) -> NDArray[np.object_]:
    """Return a vector of bytes objects; trailing zero bytes are preserved."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _split_texts(name: str, data: bytes) -> list[bytes]:
    """Return the elements of raw BYTES."""
    texts = []
    start = 0
    while start < len(data):
        end = start + _LENGTH.size
        if end > len(data):
            raise InvalidArgumentError(f"the raw contents of input {name!r} are truncated")
        (size,) = _LENGTH.unpack_from(data, start)
        start = end + size
        if start > len(data):
            raise InvalidArgumentError(f"the raw contents of input {name!r} are truncated")
        texts.append(data[end:start])
    return texts
