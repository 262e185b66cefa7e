"""Shape, element type and size of a value on an edge, of any class.

A scalar variant or resource is passed as the object itself, of any class; a tensor of such objects
is an object array. All other values are arrays of NumPy or of a device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.dtypes import variant

if TYPE_CHECKING:
    from graphmill.dtypes import DType
    from graphmill.typing import Value


def shape_of_value(value: Value, dtype: DType) -> tuple[int, ...]:
    """Return the shape of a value of element type `dtype`; an object in a variant is a scalar."""
    if dtype.kind == "h" and not isinstance(value, np.ndarray):
        return ()
    shape: tuple[int, ...] = value.shape
    return shape


def dtype_of_value(value: Value) -> np.dtype[Any]:
    """Return the element type of a value of unknown type; variant if it is not an array."""
    if hasattr(value, "__array__"):
        dtype: np.dtype[Any] = value.dtype
        return dtype
    return variant.as_numpy_dtype


def has_dtype(value: Value, dtype: DType) -> bool:
    """Return whether a value fits an element type; any object can be a handle or variant."""
    if dtype.kind == "h" and not isinstance(value, np.ndarray):
        return True
    return dtype_of_value(value) == dtype.as_numpy_dtype


def num_bytes_of_value(value: Value) -> int:
    """Return the size of an array in bytes; 0 if it is unknown."""
    num_bytes = getattr(value, "nbytes", 0)
    return num_bytes if isinstance(num_bytes, int) else 0
