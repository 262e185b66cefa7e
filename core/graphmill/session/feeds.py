"""Feeds: values of the caller as tensors of the graph, checked (row S6).

A fed array is never copied; it enters as a view, so that what keeps a value beyond the step
(a variable) can tell that the memory is not its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.dtypes import string
from graphmill.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.dtypes import DType
    from graphmill.graph.node import Node
    from graphmill.typing import Shape, Value

_PLACEHOLDERS = frozenset({"Placeholder", "PlaceholderV2", "PlaceholderWithDefault"})
_SCALAR_MEANS_UNKNOWN_BEFORE = 24  # older producers wrote a shape of rank 0 for an unknown one


def static_shape(node: Node, output: int, producer: int) -> Shape:
    """Return what the graph says of the shape of a tensor; None where it says nothing."""
    if node.op in _PLACEHOLDERS:
        shape: Shape = node.attrs.get("shape")
        if shape == () and 0 < producer < _SCALAR_MEANS_UNKNOWN_BEFORE:
            return None
        return shape
    shapes = node.attrs.get("_output_shapes")
    if isinstance(shapes, tuple) and output < len(shapes):
        return shapes[output]  # type: ignore[no-any-return]
    return None


def feed_converter(name: str, dtype: DType, shape: Shape) -> Callable[[Any], Value]:
    """Return the function that turns a fed value into a tensor of `dtype` and `shape`.

    It raises InvalidArgumentError, naming the tensor, for a value that does not fit.
    """
    if not dtype.is_numpy_compatible:
        return lambda value: value
    expected = dtype.as_numpy_dtype
    known = shape is not None and -1 not in shape
    ndarray = np.ndarray

    def convert(value: Any) -> Value:
        if (
            type(value) is ndarray
            and value.dtype is expected
            and (not known or value.shape == shape)
        ):
            if known or shape is None:
                return value.view()
            array = value
        else:
            array = _to_array(name, value, dtype)
        if shape is not None and not _fits(array.shape, shape):
            raise InvalidArgumentError(
                f"Cannot feed value of shape {array.shape} for tensor '{name}', which has shape "
                f"'{_shape_text(shape)}'"
            )
        return array.view() if array is value else array

    return convert


def _to_array(name: str, value: Any, dtype: DType) -> np.ndarray[Any, Any]:
    if dtype is string:
        return _to_strings(name, value)
    expected = dtype.as_numpy_dtype
    if isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array__"):
        array = np.asarray(value)
        if array.dtype == expected:
            return array
        return _cast(name, array, dtype)
    try:
        # Python numbers are checked against the type: 1.5 or 2**40 is no int32.
        array = np.asarray(value)
    except ValueError as error:
        raise InvalidArgumentError(
            f"the value fed for tensor '{name}' is no array: {error}"
        ) from error
    if array.size == 0:
        return array.astype(expected)
    return _cast(name, array, dtype)


def _cast(name: str, array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """Return `array` as `dtype`, if no kind of number and no integer's value is lost by it."""
    expected = dtype.as_numpy_dtype
    kinds = (
        "bui"
        if dtype.is_integer or dtype.is_quantized
        else "buif"
        if dtype.is_floating
        else "buifc"
    )
    source_kind = "f" if array.dtype.kind == "V" else array.dtype.kind
    if dtype.is_bool:
        kinds = "b"
    if source_kind in kinds:
        with np.errstate(all="ignore"):
            cast = array.astype(expected)
        if not dtype.is_integer or np.array_equal(cast, array):
            return cast
        raise InvalidArgumentError(
            f"a value fed for tensor '{name}' does not fit in {dtype.name}: values from "
            f"{array.min()} to {array.max()}"
        )
    raise InvalidArgumentError(
        f"Cannot feed a value of dtype {array.dtype} for tensor '{name}', which has dtype "
        f"{dtype.name}; convert it first"
    )


def _to_strings(name: str, value: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(value, dtype=object) if not isinstance(value, np.ndarray) else value
    if array.dtype.kind in "SU":
        array = array.astype(object)
    if array.dtype != object:
        raise InvalidArgumentError(
            f"Cannot feed a value of dtype {array.dtype} for tensor '{name}', which has dtype "
            "string; give bytes or str"
        )
    flat = [item for item in array.ravel().tolist() if not isinstance(item, bytes)]
    if not flat:
        return array
    wrong = next((item for item in flat if not isinstance(item, str)), None)
    if wrong is not None:
        raise InvalidArgumentError(
            f"Cannot feed {type(wrong).__name__} for tensor '{name}', which has dtype string; "
            "give bytes or str"
        )
    encoded = np.empty(array.shape, dtype=object)
    encoded.ravel()[:] = [
        item.encode() if isinstance(item, str) else item for item in array.ravel().tolist()
    ]
    return encoded


def _fits(given: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    return len(given) == len(shape) and all(
        want in (-1, got) for got, want in zip(given, shape, strict=True)
    )


def _shape_text(shape: tuple[int, ...]) -> str:
    sizes = ", ".join("?" if size < 0 else str(size) for size in shape)
    return f"({sizes},)" if len(shape) == 1 else f"({sizes})"
