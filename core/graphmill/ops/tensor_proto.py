"""Convert `TensorProto` messages to NumPy arrays and back.

Semantics: `Tensor::FromProto` and `Tensor::AsProtoTensorContent` of
tensorflow/core/framework/tensor.cc. `tensor_content` becomes a read-only array over the message's
bytes, without a copy. If a `*_val` list is shorter than the shape, its last value is repeated.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import dtypes, proto
from graphmill.dtypes import DType, as_dtype
from graphmill.errors import InvalidArgumentError, ResourceExhaustedError, UnimplementedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from graphmill.proto import TensorProto

# Larger tensors of a single repeated value become a broadcast view of that value.
_MAX_FILLED_BYTES: Final = 16 * 1024 * 1024
_MAX_MESSAGE_BYTES: Final = 2**31 - 1  # limit of protobuf
_MAX_SIZE: Final = 2**63 - 1
_MAX_ELEMENT_BYTES: Final = 16
_MAX_RANK: Final = 64  # limit of NumPy

_FIELDS: Final[dict[DType, str]] = {
    dtypes.float32: "float_val",
    dtypes.float64: "double_val",
    dtypes.complex64: "scomplex_val",
    dtypes.complex128: "dcomplex_val",
    dtypes.int64: "int64_val",
    dtypes.uint32: "uint32_val",
    dtypes.uint64: "uint64_val",
    dtypes.bool: "bool_val",
    dtypes.string: "string_val",
    dtypes.float16: "half_val",
    dtypes.bfloat16: "half_val",
}
_FIELDS.update(
    dict.fromkeys(
        (
            *(dtypes.int32, dtypes.int16, dtypes.int8, dtypes.uint16, dtypes.uint8),
            *(dtypes.int4, dtypes.uint4, dtypes.int2, dtypes.uint2),
            *dtypes.QUANTIZED,
        ),
        "int_val",
    )
)
_FIELDS.update(
    dict.fromkeys(
        (
            *(dtypes.float8_e5m2, dtypes.float8_e4m3fn, dtypes.float8_e4m3fnuz),
            *(dtypes.float8_e4m3b11fnuz, dtypes.float8_e5m2fnuz, dtypes.float4_e2m1fn),
        ),
        "float8_val",
    )
)


def tensor_proto_dtype(message: TensorProto) -> DType:
    """Return the element type of a message.

    Raises:
        InvalidArgumentError: the message has no element type, or a reference type.
    """
    if message.dtype == 0:
        raise InvalidArgumentError("TensorProto has no dtype (DT_INVALID)")
    dtype = as_dtype(int(message.dtype))
    if dtype.is_ref:
        raise InvalidArgumentError(
            f"TensorProto has the reference type {dtype.name}, which values cannot have"
        )
    return dtype


def tensor_proto_shape(message: TensorProto) -> tuple[int, ...]:
    """Return the shape of a message.

    Raises:
        InvalidArgumentError: a size is unknown or negative, or there are too many elements or
            dimensions for a NumPy array.
    """
    shape_proto = message.tensor_shape
    if shape_proto.unknown_rank:
        raise InvalidArgumentError(
            "TensorProto has a shape of unknown rank; a value must have a known shape"
        )
    if len(shape_proto.dim) > _MAX_RANK:  # before they are read: there may be millions
        raise InvalidArgumentError(
            f"TensorProto has {len(shape_proto.dim)} dimensions; an array has at most {_MAX_RANK}"
        )
    shape = tuple([dim.size for dim in shape_proto.dim[:]])
    if not shape:
        return shape
    if min(shape) < 0:
        raise InvalidArgumentError(f"TensorProto has shape {list(shape)} with a negative size")
    # For an array without elements, NumPy checks the product of the other dimensions.
    others = math.prod(filter(None, shape)) * _MAX_ELEMENT_BYTES if 0 in shape else 0
    if max(math.prod(shape), others) > _MAX_SIZE:
        raise InvalidArgumentError(f"TensorProto has shape {list(shape)}: too many elements")
    return shape


def tensor_proto_to_numpy(message: TensorProto) -> NDArray[Any]:
    """Return the value of a message as a NumPy array (of `bytes` objects for strings).

    The array is read-only if it shares memory with the message. Elements of a resource tensor are
    serialized `ResourceHandleProto` messages, which refer to resources of a session.

    Raises:
        InvalidArgumentError: dtype or shape is invalid, or `tensor_content` has the wrong size.
        UnimplementedError: the message is a variant tensor, whose values live in a session.
        ResourceExhaustedError: there is not enough memory for the value.
    """
    dtype = tensor_proto_dtype(message)
    shape = tensor_proto_shape(message)
    if dtype is dtypes.resource:
        return _handles(message.resource_handle_val, shape)
    field = _field(dtype)
    if math.prod(shape) == 0:
        return np.empty(shape, dtype.as_numpy_dtype)
    if message.tensor_content:
        if dtype is dtypes.string:
            return _strings(split_strings(message.tensor_content, math.prod(shape)), shape)
        return tensor_content_to_numpy(message.tensor_content, dtype, shape)
    return _from_values(getattr(message, field), dtype, shape)


def tensor_content_to_numpy(
    content: bytes | memoryview, dtype: DType, shape: tuple[int, ...]
) -> NDArray[Any]:
    """Return a read-only array over the bytes of a `tensor_content`, without a copy.

    Args:
        content: the elements in row-major order, little-endian.
        dtype: their type, which must have a fixed size.
        shape: shape of the array.

    Raises:
        InvalidArgumentError: the number of bytes does not match the shape.
    """
    numpy_dtype = dtype.as_numpy_dtype
    expected = math.prod(shape) * numpy_dtype.itemsize
    if len(content) != expected:
        raise InvalidArgumentError(
            f"TensorProto of {dtype.name} with shape {list(shape)} needs {expected} bytes of "
            f"tensor_content, but it has {len(content)}"
        )
    if dtype is not dtypes.bool:
        return np.frombuffer(content, numpy_dtype).reshape(shape)
    flags = np.frombuffer(content, np.uint8).reshape(shape)
    # Any byte except 0 means true, but NumPy's bools must be 0 or 1.
    return flags != 0 if flags.size and flags.max() > 1 else flags.view(np.bool_)


def numpy_to_tensor_proto(value: Any, dtype: DType | None = None) -> TensorProto:
    """Return the message for an array; strings may be `bytes` or `str` (encoded as UTF-8).

    Args:
        value: a NumPy array or array-like of the required type.
        dtype: the element type, if that of the array is ambiguous (quantized types).

    Raises:
        InvalidArgumentError: the value has no element type, does not have `dtype`, or exceeds the
            2 GiB limit of messages.
        UnimplementedError: the value is a resource or variant tensor.
    """
    array = value if isinstance(value, np.ndarray) else np.asarray(value)
    dtype = as_dtype(array.dtype) if dtype is None else dtype
    field = _field(dtype)
    if dtype is not dtypes.string and array.dtype != dtype.as_numpy_dtype:
        raise InvalidArgumentError(f"array of {array.dtype} is not a tensor of {dtype.name}")
    message = proto.TensorProto(dtype=dtype.enum)  # type: ignore[arg-type]
    for size in array.shape:
        message.tensor_shape.dim.add(size=size)
    if dtype is dtypes.string:
        message.string_val.extend(_string_bytes(item) for item in array.ravel().tolist())
    elif array.nbytes > _MAX_MESSAGE_BYTES:
        raise InvalidArgumentError(
            f"tensor of {array.nbytes} bytes does not fit into a TensorProto (at most 2 GiB); "
            "store it in a variable and save that in a checkpoint"
        )
    elif array.size > 1:
        message.tensor_content = array.tobytes()
    elif array.size == 1:
        _set_single(message, field, array.reshape(1), dtype)
    return message


def _field(dtype: DType) -> str:
    field = _FIELDS.get(dtype)
    if field is None:
        raise UnimplementedError(
            f"a TensorProto of {dtype.name} cannot be converted: such a value is a handle to an "
            "object of a session"
        )
    return field


def _from_values(values: Any, dtype: DType, shape: tuple[int, ...]) -> NDArray[Any]:
    if dtype is dtypes.string:
        return _strings(values, shape)
    return _fill(_decode_values(values, dtype), shape)


def _handles(messages: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    if len(messages) != math.prod(shape):
        raise InvalidArgumentError(
            f"TensorProto of resource with shape {list(shape)} needs {math.prod(shape)} handles, "
            f"but it has {len(messages)}"
        )
    handles = np.empty(len(messages), dtypes.resource.as_numpy_dtype)
    handles[:] = [message.SerializeToString(deterministic=True) for message in messages]
    return handles.reshape(shape)


def _decode_values(values: Any, dtype: DType) -> NDArray[Any]:
    """Convert the elements of a `*_val` field; an empty field stands for one zero."""
    numpy_dtype = dtype.as_numpy_dtype
    if not values:
        return np.zeros(1, numpy_dtype)
    if isinstance(values, bytes):  # float8_val
        return np.frombuffer(values, numpy_dtype)
    if dtype.is_complex:
        real = np.array(values, numpy_dtype.type(0).real.dtype)
        pairs = real[: len(real) // 2 * 2].view(numpy_dtype)
        return pairs if pairs.size else np.zeros(1, numpy_dtype)
    if dtype.kind == "f" and dtype.size == 2:  # half_val contains bit patterns
        return np.array(values, np.int64).astype(np.uint16).view(numpy_dtype)
    if dtype.kind in "iuq":  # integers out of range wrap around, as in C++
        return np.array(values, np.int64 if dtype.enum != dtypes.uint64.enum else np.uint64).astype(
            numpy_dtype
        )
    return np.array(values, numpy_dtype)


def _fill(values: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Reshape `values`, repeating the last one if there are too few, and dropping surplus ones."""
    size = math.prod(shape)
    if values.size >= size:
        return values[:size].reshape(shape)
    if values.size == 1 and size * values.itemsize > _MAX_FILLED_BYTES:
        return np.broadcast_to(values[0], shape)
    nbytes = size * values.itemsize
    if nbytes > _MAX_FILLED_BYTES:
        from graphmill.memory_budget import request_memory  # few constants are so large

        request_memory(nbytes, f"a constant of shape {list(shape)} repeats its last value")
    try:
        filled = np.empty(size, values.dtype)
    except (MemoryError, ValueError):
        raise ResourceExhaustedError(
            f"cannot allocate memory for a TensorProto of shape {list(shape)} ({values.dtype})"
        ) from None
    filled[: values.size] = values
    filled[values.size :] = values[-1]
    return filled.reshape(shape)


def _strings(values: Sequence[bytes], shape: tuple[int, ...]) -> NDArray[Any]:
    array = np.empty(max(len(values), 1), object)
    array[:] = list(values) or [b""]
    return _fill(array, shape)


def count_stored_values(message: TensorProto) -> int:
    """Return the number of values in a message without `tensor_content`; its shape may need more.

    Raises:
        UnimplementedError: its elements are resources or variants.
    """
    values: Sequence[Any] = getattr(message, _field(tensor_proto_dtype(message)))
    return len(values)


def split_strings(content: bytes, count: int) -> list[bytes]:
    """Return the strings in a `tensor_content`: all lengths as varints, then all bytes.

    Semantics: port::DecodeStringList in tensorflow/core/platform/tensor_coding.cc.

    Raises:
        InvalidArgumentError: the content does not have exactly `count` strings.
    """
    lengths: list[int] = []
    position = 0
    if count > len(content):
        raise _bad_strings(content, count)
    while len(lengths) < count:
        length = shift = 0
        while True:
            if position >= len(content) or shift > 28:
                raise _bad_strings(content, count)
            byte = content[position]
            position += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        lengths.append(length)
    if position + sum(lengths) != len(content):
        raise _bad_strings(content, count)
    strings = []
    for length in lengths:
        strings.append(content[position : position + length])
        position += length
    return strings


def _bad_strings(content: bytes, count: int) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{len(content)} bytes of tensor_content do not hold {count} strings or variants"
    )


def _string_bytes(item: object) -> bytes:
    if isinstance(item, bytes):
        return item
    if isinstance(item, str):
        return item.encode("utf-8", "surrogateescape")
    raise InvalidArgumentError(
        f"a string tensor holds bytes or str, not {type(item).__name__} ({item!r})"
    )


def _set_single(message: TensorProto, field: str, one: NDArray[Any], dtype: DType) -> None:
    if field == "float8_val":
        message.float8_val = one.tobytes()
    elif field == "half_val":
        message.half_val.append(int(one.view(np.uint16)[0]))
    elif dtype.is_complex:
        getattr(message, field).extend((float(one[0].real), float(one[0].imag)))
    else:
        convert: Callable[[Any], Any] = _CONVERTERS.get(field, int)
        getattr(message, field).append(convert(one[0]))


_CONVERTERS: Final[dict[str, Callable[[Any], Any]]] = {
    "float_val": float,
    "double_val": float,
    "bool_val": bool,
}
