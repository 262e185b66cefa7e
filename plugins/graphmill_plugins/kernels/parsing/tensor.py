"""Convert between bytes and tensors: ParseTensor, SerializeTensor, DecodeRaw.

Semantics: tensorflow/core/kernels/{parse_tensor_op,decode_raw_op,decode_padded_raw_op,
decode_compressed_op,serialize_tensor}.cc.
"""

from __future__ import annotations

import zlib
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from google.protobuf.message import DecodeError

from graphmill import dtypes
from graphmill.dtypes import as_dtype
from graphmill.errors import DataLossError, InvalidArgumentError, OpError
from graphmill.spi import kernel
from graphmill.spi.files import bytes_stream, check_compression
from graphmill.spi.kernels import check_cancelled
from graphmill.spi.protos import (
    TensorProto,
    numpy_to_tensor_proto,
    tensor_proto_dtype,
    tensor_proto_to_numpy,
)
from graphmill_plugins.kernels._strings import check_text, map_strings, string_scalar
from graphmill_plugins.kernels._support import (
    MAX_AXES,
    SMALL_REQUEST,
    check_size,
    refuse_objects,
    shape_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from graphmill.dtypes import DType
    from graphmill.spi import Value

_MAX_SIZE = 1 << 31
_READ_SIZE = 1 << 18


@kernel("ParseTensor", host=True, dynamic_shape=True)
def parse_tensor(serialized: Value, out_type: np.dtype[Any]) -> Value:
    """Return the tensor of a serialized `TensorProto`."""
    message = parsed_message(serialized, as_dtype(out_type))
    if len(message.tensor_shape.dim) <= MAX_AXES:  # there may be millions
        sizes = [dim.size for dim in message.tensor_shape.dim]
        if min(sizes, default=0) >= 0:  # one stored value may stand for all elements
            check_size(sizes, "the tensor", itemsize=out_type.itemsize)
    try:
        return tensor_proto_to_numpy(message)
    except OpError as error:
        raise InvalidArgumentError(f"malformed TensorProto: {error.message}") from error


def parsed_message(serialized: Value, expected: DType) -> TensorProto:
    """Return the message in the input of `ParseTensor`.

    Raises:
        InvalidArgumentError: it is no scalar, malformed, or a tensor of another type.
    """
    if serialized.ndim:
        raise InvalidArgumentError(
            f"Expected `serialized` to be a scalar, got shape: {shape_text(serialized.shape)}"
        )
    try:
        message = TensorProto.FromString(serialized.item())
    except DecodeError as error:
        raise InvalidArgumentError(
            f"Could not parse `serialized` as TensorProto, {len(serialized.item())} bytes"
        ) from error
    try:
        dtype = tensor_proto_dtype(message)
    except OpError as error:
        raise InvalidArgumentError(f"malformed TensorProto: {error.message}") from error
    if dtype is not expected:
        raise InvalidArgumentError(
            f"Type mismatch between parsed tensor ({dtype.name}) and dtype ({expected.name})"
        )
    return message


@kernel("SerializeTensor", host=True)
def serialize_tensor(tensor: Value, T: np.dtype[Any]) -> Value:
    """Return the serialized `TensorProto` of a tensor."""
    if as_dtype(T) is dtypes.string:
        check_text(tensor, what="the serialized text")
    return string_scalar(tensor_message(tensor, as_dtype(T)).SerializeToString(deterministic=True))


def tensor_message(tensor: Value, dtype: DType) -> TensorProto:
    """Return a tensor as a message with raw bytes and an explicit shape.

    Raises:
        UnimplementedError: its elements are resources or variants.
    """
    refuse_objects(dtype, "serialized")
    array = np.asarray(tensor)
    if dtype.kind == "s":
        message = numpy_to_tensor_proto(array, dtype)
    else:
        message = TensorProto(tensor_content=array.tobytes())
        message.dtype = dtype.enum  # type: ignore[assignment]
    shape = message.tensor_shape
    shape.SetInParent()
    del shape.dim[:]
    for size in array.shape:
        shape.dim.add(size=size)
    return message


@kernel("DecodeRaw", host=True, dynamic_shape=True)
def decode_raw(content: Value, out_type: np.dtype[Any], little_endian: bool) -> Value:
    """Reinterpret the bytes of each string as numbers; all strings have equal length."""
    items: list[bytes] = content.ravel().tolist()
    if not items:
        return np.zeros((*content.shape, 0), out_type)
    length = len(items[0])
    for item in items:
        if len(item) != length:
            raise InvalidArgumentError(
                f"DecodeRaw requires input strings to all be the same size, but element of size "
                f"{len(item)} != {length}"
            )
    if length == 0:
        return np.zeros((*content.shape, 0), out_type)
    if length % out_type.itemsize:
        raise InvalidArgumentError(
            f"Input to DecodeRaw has length {length} that is not a multiple of "
            f"{out_type.itemsize}, the size of {as_dtype(out_type).name}"
        )
    return _numbers(b"".join(items), out_type, little_endian).reshape(*content.shape, -1)


def _numbers(data: bytes, dtype: np.dtype[Any], little_endian: bool) -> Value:
    """Reinterpret bytes as numbers; the bytes of booleans are not checked."""
    if dtype.itemsize == 1 or little_endian:
        return np.frombuffer(data, dtype)
    part = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
    swapped = np.frombuffer(data, np.uint8).reshape(-1, part)[:, ::-1]
    return np.ascontiguousarray(swapped).reshape(-1).view(dtype)


@kernel("DecodePaddedRaw", host=True, dynamic_shape=True)
def decode_padded_raw(
    content: Value,
    fixed_length: Value,
    out_type: np.dtype[Any],
    little_endian: bool,
) -> Value:
    """Reinterpret the bytes of each string, truncated or zero-padded to one length, as numbers."""
    if fixed_length.ndim:
        raise InvalidArgumentError(f"k must be scalar, got shape {shape_text(fixed_length.shape)}")
    length = int(fixed_length)
    if length <= 0:
        raise InvalidArgumentError(f"fixed_length ({length}) must be greater than zero.")
    if length % out_type.itemsize:
        raise InvalidArgumentError(
            f"fixed_length ({length}) must be a multiple of the size of out_type "
            f"({out_type.itemsize})"
        )
    items: list[bytes] = content.ravel().tolist()
    if len(items) * length > _MAX_SIZE:
        raise InvalidArgumentError(
            f"{len(items)} strings padded to {length} bytes exceed the limit of {_MAX_SIZE} bytes"
        )
    check_size((len(items), length), "the padded strings")
    data = b"".join(item[:length].ljust(length, b"\0") for item in items)
    return _numbers(data, out_type, little_endian).reshape(
        *content.shape, length // out_type.itemsize
    )


@kernel("DecodeCompressed", host=True, expensive=True)
def decode_compressed(content: Value, compression_type: str) -> Value:
    """Decompress each string, or the readable part of a truncated string.

    Raises:
        DataLossError: a string is not of this compression type.
        InvalidArgumentError: the compression type is unknown, or the result is too large.
    """
    check_compression(compression_type)
    if not compression_type:
        return content

    inflated = 0

    def inflate(item: bytes) -> bytes:
        nonlocal inflated
        check = partial(_check_inflated, inflated)
        try:
            with bytes_stream(item, compression_type) as stream:
                result = _read_all(stream, check)
        except DataLossError as error:
            result = _inflate_truncated(item, compression_type, error, check)
        inflated += len(result)
        return result

    return map_strings(inflate, content)


def _inflate_truncated(
    item: bytes, compression_type: str, reason: DataLossError, check: Callable[[int], None]
) -> bytes:
    """Return the decompressed beginning of a truncated string."""
    inflater = zlib.decompressobj(zlib.MAX_WBITS + (16 if compression_type == "GZIP" else 0))
    try:
        content = inflater.decompress(item, _READ_SIZE)
        while inflater.unconsumed_tail:
            check(len(content))
            content += inflater.decompress(inflater.unconsumed_tail, _READ_SIZE)
    except zlib.error:
        raise DataLossError(f"DecodeCompressed: {reason.message}") from reason
    return content


def _read_all(stream: BinaryIO, check: Callable[[int], None]) -> bytes:
    parts = []
    size = 0
    while part := stream.read(_READ_SIZE):
        parts.append(part)
        size += len(part)
        check(size)
    return b"".join(parts)


def _check_inflated(before: int, size: int) -> None:
    """Check that a string may inflate to more than `size` bytes, after `before` bytes of others."""
    if size > SMALL_REQUEST:
        check_cancelled()
    if size > _MAX_SIZE:
        raise InvalidArgumentError(f"a string inflates to more than {_MAX_SIZE} bytes")
    check_size((before + size,), "the decompressed data")
