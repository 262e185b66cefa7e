"""Convert Python and NumPy values to tensors: determine element type and array.

Semantics: make_tensor_proto in tensorflow/python/framework/tensor_util.py. Python numbers are
weakly typed: they adopt the requested type, else int32 (int64 if out of range) or float32. Arrays
keep their type, unless a requested type can represent their kind of number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import dtypes
from graphmill.dtypes import DType, as_dtype
from graphmill.errors import InvalidArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Kinds of types to which values of each kind may be converted (see DType.kind).
_FITS: Final = {"b": "b", "i": "iufcq", "u": "iufcq", "f": "fc", "c": "c", "s": "s", "q": "q"}


def is_weak(value: Any) -> bool:
    """Return whether a value is weakly typed: Python numbers and lists of them."""
    return not isinstance(value, (np.ndarray, np.generic)) and not hasattr(value, "__array__")


def to_array(value: Any, dtype: DType | None = None) -> tuple[NDArray[Any], DType]:
    """Return a value as an array and its element type.

    Args:
        value: a number, string, array, or nested lists of these.
        dtype: the required type; by default that of the value.

    Raises:
        InvalidArgumentError: it is not a tensor, or cannot be converted to the type.
    """
    array, natural = _read(value)
    dtype = natural if dtype is None else dtype
    if natural.kind not in _FITS or dtype.kind not in _FITS[natural.kind]:
        if array.size:  # an empty list has no kind
            raise _misfit_error(value, dtype, f"is {natural.name}")
    elif dtype.kind in "iuq" and dtype is not natural and array.size:
        low, high = int(dtype.min), int(dtype.max)
        if int(array.min()) < low or int(array.max()) > high:
            raise _misfit_error(value, dtype, f"does not fit into {low} to {high}")
    with np.errstate(over="ignore"):  # floats that are too large become inf
        return array.astype(dtype.as_numpy_dtype, copy=False), dtype


def natural_dtype(value: Any) -> DType:
    """Return the element type of a value without a requested type.

    Raises:
        InvalidArgumentError: it is not a tensor.
    """
    return _read(value)[1]


def reshaped(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Reshape an array; a single value is repeated.

    Raises:
        InvalidArgumentError: the number of elements differs.
    """
    if array.size == 1:
        return np.full(shape, array.reshape(-1)[0], array.dtype)
    try:
        return array.reshape(shape)
    except ValueError:
        raise InvalidArgumentError(
            f"a value of shape {list(array.shape)} cannot fill shape {list(shape)}"
        ) from None


def _read(value: Any) -> tuple[NDArray[Any], DType]:
    """Return a value as NumPy's array, in full precision, and its natural element type."""
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise InvalidArgumentError(f"{_short(value)} is not a tensor: {error}") from None
    if array.dtype.kind in "SUO":
        return _strings(value, array), dtypes.string
    if is_weak(value):
        if array.dtype == np.float64:
            return array, dtypes.float32
        if array.dtype == np.int64 and np.array_equal(array.astype(np.int32), array):
            return array, dtypes.int32
    return array, as_dtype(array.dtype)


def _strings(value: Any, array: NDArray[Any]) -> NDArray[Any]:
    # NumPy's string types drop trailing NULs; object arrays preserve the bytes.
    objects = array if isinstance(value, np.ndarray) else np.array(value, dtype=object)
    strings = np.empty(objects.size, object)
    for position, item in enumerate(objects.ravel().tolist()):
        if isinstance(item, str):
            strings[position] = item.encode("utf-8", "surrogateescape")
        elif isinstance(item, bytes):
            strings[position] = item
        else:
            raise InvalidArgumentError(
                f"{_short(value)} is not a tensor: it contains {type(item).__name__} {_short(item)}"
            )
    return strings.reshape(objects.shape)


def _misfit_error(value: Any, dtype: DType, why: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"expected a value of {dtype.name}, but {_short(value)} {why}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
