"""Write tensors into messages as TensorFlow Serving does: element by element, in typed fields.

Semantics: `Tensor::AsProtoField` of tensorflow/core/framework/tensor.cc. Many clients read
`float_val` of a response, though `tensor_content` would be shorter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import dtypes
from graphmill.errors import UnimplementedError
from graphmill.spi.protos import length_delimited, proto

if TYPE_CHECKING:
    from graphmill.spi import Value

_RAW_FIELDS: Final = {np.dtype(np.float32): 5, np.dtype(np.float64): 6}
"""Packed fields of fixed size are the memory of the array."""
_FIELDS: Final = {
    dtypes.int8: "int_val",
    dtypes.int16: "int_val",
    dtypes.int32: "int_val",
    dtypes.uint8: "int_val",
    dtypes.uint16: "int_val",
    dtypes.int64: "int64_val",
    dtypes.uint32: "uint32_val",
    dtypes.uint64: "uint64_val",
    dtypes.bool: "bool_val",
    dtypes.string: "string_val",
}
_HALVES: Final = (dtypes.float16, dtypes.bfloat16)


def fill_tensor(message: proto.TensorProto, value: Value) -> None:
    """Write an array into an empty message.

    Raises:
        UnimplementedError: the type has no field.
    """
    array = np.asarray(value)
    if array.dtype.kind in "SU":
        array = array.astype(object)
    dtype = dtypes.as_dtype(array.dtype) if not array.dtype.hasobject else dtypes.string
    message.dtype = dtype.enum  # type: ignore[assignment]
    message.tensor_shape.SetInParent()
    for size in array.shape:
        message.tensor_shape.dim.add(size=size)
    number = _RAW_FIELDS.get(array.dtype)
    if number is not None:
        if array.size:
            data = np.ascontiguousarray(array).tobytes()
            message.MergeFromString(length_delimited(number, len(data)) + data)
        return
    if dtype in _HALVES:
        message.half_val.extend(array.reshape(-1).view(np.uint16).tolist())
        return
    field = _FIELDS.get(dtype)
    if field is None:
        raise UnimplementedError(f"an output is of type {dtype.name}, which no response can hold")
    values: Any = array.reshape(-1).tolist()
    if field == "string_val":
        values = [text.encode("utf-8") if isinstance(text, str) else text for text in values]
    getattr(message, field).extend(values)
