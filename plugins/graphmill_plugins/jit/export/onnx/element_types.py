"""ONNX's codes for element types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill import dtypes
from graphmill_plugins.jit.export.onnx.errors import NotConvertible

if TYPE_CHECKING:
    from graphmill.dtypes import DType

_TYPES: Final = {
    dtypes.float32: 1,
    dtypes.uint8: 2,
    dtypes.int8: 3,
    dtypes.uint16: 4,
    dtypes.int16: 5,
    dtypes.int32: 6,
    dtypes.int64: 7,
    dtypes.string: 8,
    dtypes.bool: 9,
    dtypes.float16: 10,
    dtypes.float64: 11,
    dtypes.uint32: 12,
    dtypes.uint64: 13,
    dtypes.complex64: 14,
    dtypes.complex128: 15,
    dtypes.bfloat16: 16,
}


def onnx_type(dtype: DType) -> int:
    """Return the code of an element type, as in ONNX's `TensorProto.DataType`.

    Raises:
        NotConvertible: ONNX has no such type.
    """
    number = _TYPES.get(dtype.base_dtype)
    if number is None:
        raise NotConvertible(f"ONNX has no element type {dtype.base_dtype.name}")
    return number
