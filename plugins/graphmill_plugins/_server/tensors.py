"""Tensors as bytes: values to parts of a message and back, without copies of large ones.

Semantics: `Tensor::AsProtoTensorContent` and `Tensor::FromProto` of
tensorflow/core/framework/tensor.cc, and `EncodeTensorToByteBuffer` of
tensorflow/core/distributed_runtime/tensor_coding.cc.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from graphmill import dtypes
from graphmill.dtypes import DType, as_dtype
from graphmill.errors import InvalidArgumentError
from graphmill.spi import ResourceHandle
from graphmill.spi.protos import (
    LENGTH,
    handles_from_tensor_proto,
    handles_to_tensor_proto,
    is_variant,
    numpy_to_tensor_proto,
    proto,
    tensor_content_to_numpy,
    tensor_proto_dtype,
    tensor_proto_shape,
    tensor_proto_to_numpy,
    variants_from_tensor_proto,
    variants_to_tensor_proto,
    write_varint,
)

from .tensor_contents import CONTENT_FIELD

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from graphmill.spi import Value, VariantRegistry
    from graphmill.spi.protos import TensorProto

    Part: TypeAlias = bytes | NDArray[Any]

MAX_MESSAGE_BYTES: Final = 2**31 - 1
"""The maximum size in bytes of a message in protobuf."""

_CONTENT_TAG: Final = bytes([CONTENT_FIELD << 3 | LENGTH])
COPIED_BYTES: Final = 4096
"""The size in bytes up to which a copy is cheaper than a view."""


def encode_tensor(
    value: Value, variants: VariantRegistry, dtype: DType | None = None
) -> tuple[list[Part], int]:
    """Return a value as the parts of a TensorProto, to be joined, and their size in bytes.

    Numbers become a header and `tensor_content`; the latter is the array's own memory where that
    is contiguous.

    Args:
        value: an array, a scalar, a resource handle or a variant.
        variants: the codecs of variants.
        dtype: its element type; None for that of the array.

    Raises:
        InvalidArgumentError: the value has another type, or is too large for a message.
        UnimplementedError: a variant whose type has no codec.
    """
    if isinstance(value, ResourceHandle):
        data = handles_to_tensor_proto(value).SerializeToString()
        return [data], len(data)
    if dtype is dtypes.variant or (dtype is None and is_variant(value)):
        data = variants_to_tensor_proto(value, variants).SerializeToString()
        return [data], len(data)
    array = _as_array(value)
    if array.dtype.hasobject:
        dtype = as_dtype(getattr(value, "dtype", array.dtype)) if dtype is None else dtype
        message = (
            handles_to_tensor_proto(array)
            if dtype is dtypes.resource
            else numpy_to_tensor_proto(array, dtype)
        )
        data = message.SerializeToString()
        return [data], len(data)
    dtype = as_dtype(array.dtype) if dtype is None else dtype
    if array.dtype != dtype.as_numpy_dtype:
        raise InvalidArgumentError(f"array of {array.dtype} is not a tensor of {dtype.name}")
    header = _header(dtype.enum, array.shape)
    size = array.nbytes
    if not size:
        return [header], len(header)
    if size > MAX_MESSAGE_BYTES:
        raise InvalidArgumentError(
            f"a tensor of {size} bytes does not fit into a message (2 GiB at most); send parts"
        )
    header += _CONTENT_TAG + write_varint(size)
    return [header, _memory(array)], len(header) + size


@lru_cache(maxsize=1024)
def content_header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return the header of a non-empty numeric array in its TensorProto.

    Raises:
        InvalidArgumentError: TensorFlow has no such element type.
    """
    size = math.prod(shape) * dtype.itemsize
    return _header(as_dtype(dtype).enum, shape) + _CONTENT_TAG + write_varint(size)


def decode_tensor(
    message: TensorProto, variants: VariantRegistry, content: memoryview | None = None
) -> Value:
    """Return the value of a message: an array or scalar of NumPy, a resource handle or a variant.

    An array is read-only where it shares memory with the message.

    Args:
        message: the tensor.
        variants: the codecs of variants.
        content: its `tensor_content`, if that was extracted from the message.

    Raises:
        InvalidArgumentError: dtype, shape and content contradict each other, or the value is larger
            than a message can be.
        UnimplementedError: a variant whose type has no codec.
        ResourceExhaustedError: there is not enough memory for the value.
    """
    dtype = tensor_proto_dtype(message)
    data: bytes | memoryview = message.tensor_content if content is None else content
    if data and dtype.size:
        shape = tensor_proto_shape(message)
        if not shape:
            return tensor_content_to_numpy(data, dtype, shape)[()]
        if 0 not in shape:  # the content of a tensor without elements does not matter
            return tensor_content_to_numpy(data, dtype, shape)
    if dtype is dtypes.variant:
        return variants_from_tensor_proto(message, variants, content)
    if content is not None:
        message.tensor_content = bytes(content)
    _check_size(message, dtype)
    if dtype is dtypes.resource:
        return handles_from_tensor_proto(message)
    array = tensor_proto_to_numpy(message)
    return array if array.ndim or array.dtype.hasobject else array[()]


def _as_array(value: Value) -> NDArray[Any] | np.generic:
    if isinstance(value, bytes | str):  # NumPy's own type for them drops zero bytes at the end
        return np.array(value, dtypes.string.as_numpy_dtype)
    if isinstance(value, np.ndarray | np.generic):
        return value.astype(object) if value.dtype.kind in "SU" else value
    return np.asarray(value)


def _memory(array: NDArray[Any] | np.generic) -> Part:
    """Return the elements of an array in row-major order."""
    if array.nbytes <= COPIED_BYTES:
        return array.tobytes()
    whole: NDArray[Any] = np.ascontiguousarray(array)
    return whole.reshape(-1).view(np.uint8)


@lru_cache(maxsize=1024)
def _header(enum: int, shape: tuple[int, ...]) -> bytes:
    """Return the dtype and the shape of a TensorProto, with the shape field even for a scalar."""
    message = proto.TensorProto(dtype=enum)  # type: ignore[arg-type]
    message.tensor_shape.SetInParent()
    for size in shape:
        message.tensor_shape.dim.add(size=size)
    return message.SerializeToString()


def _check_size(message: TensorProto, dtype: DType) -> None:
    """Refuse a repeated value that is larger than a message: a few bytes could request any size."""
    shape = tensor_proto_shape(message)
    size = math.prod(shape) * max(dtype.size, 1)
    if size > MAX_MESSAGE_BYTES:
        raise InvalidArgumentError(
            f"TensorProto of {dtype.name} with shape {list(shape)} represents {size} bytes, more "
            "than a message can hold (2 GiB at most)"
        )
