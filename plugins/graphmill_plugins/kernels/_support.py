"""Small helpers shared by the kernels of several families."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError, UnimplementedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import ArrayNamespace, Value

_MAX_INT64 = 2**63 - 1
POINTER_SIZE = 8
MAX_AXES = 254  # as in TensorFlow's `TensorShape`
SMALL_REQUEST = 1 << 20
"""Size in bytes up to which a kernel may allocate without a check of the budget."""
INT32_MAX = int(np.iinfo(np.int32).max)


def is_narrow(dtype: np.dtype[Any]) -> bool:
    """Return whether `dtype` is a float of 16 bits or less; kernels compute it in float32."""
    return dtype.itemsize <= 2 and (dtype.kind == "f" or dtype.name.startswith(("bf", "float")))


def widen(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype for sums of `dtype`: float32 for 8- and 16-bit floats."""
    return dtype if dtype.itemsize > 2 else np.dtype(np.float32)


def accumulator(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which values of `dtype` are summed: float32 for narrow floats."""
    # Many kernels call this in each step, so the quick check is first.
    return np.dtype(np.float32) if dtype.itemsize <= 2 and is_narrow(dtype) else dtype


def is_string(dtype: np.dtype[Any]) -> bool:
    """Return whether `dtype` stands for TensorFlow strings (object arrays of `bytes`)."""
    return dtype.kind == "O" and dtypes.as_dtype(dtype) is dtypes.string


def in_float32(dtype: np.dtype[Any], function: Callable[..., Value]) -> Callable[..., Value]:
    """Return `function` for `dtype`; narrow floats are computed in float32 and rounded once."""
    if not is_narrow(dtype):
        return function

    def widened(*arrays: Value) -> Value:
        return function(*[array.astype(np.float32) for array in arrays]).astype(dtype)

    return widened


def object_array(value: Value) -> Value:
    """Return `value` as an object array, even if NumPy returned a bare 0-d element."""
    if isinstance(value, np.ndarray):
        return value
    array = np.empty((), object)
    array[()] = value
    return array


def on_objects(function: Callable[..., Value], dtype: np.dtype[Any]) -> Callable[..., Value]:
    """Return a function of an array that takes and returns bare objects if `dtype` is a handle."""
    if dtype.kind != "O" or dtypes.as_dtype(dtype).kind != "h":
        return function

    def call(x: Value, *others: Value) -> Value:
        result = function(object_array(x), *others)
        return result.item() if isinstance(result, np.ndarray) and not result.ndim else result

    return call


def refuse_objects(dtype: DType, verb: str) -> None:
    """Refuse elements without a content: resources and variants.

    Raises:
        UnimplementedError: they are resources or variants.
    """
    if dtype in (dtypes.resource, dtypes.variant):
        raise UnimplementedError(
            f"a tensor of {dtype.name} cannot be {verb}: its elements are objects of a session"
        )


def check_axis_count(vector: Value, what: str) -> None:
    """Check that a vector with an element for each axis is short, before Python reads all of it.

    Raises:
        InvalidArgumentError: it has more elements than a tensor can have axes.
    """
    if vector.size > MAX_AXES:
        raise InvalidArgumentError(
            f"{what} has {vector.size} elements; a tensor has at most {MAX_AXES} dimensions"
        )


def to_ints(vector: Value) -> tuple[int, ...]:
    """Return a concrete integer vector (or scalar: one element) as Python integers.

    Raises:
        InvalidArgumentError: it has more than one axis, or more elements than axes can be.
    """
    check_axis_count(vector, "a vector of integers for each axis")
    if vector.ndim > 1:
        raise InvalidArgumentError(
            f"expected a scalar or a vector of integers, got shape {shape_text(vector.shape)}"
        )
    values = vector.tolist()
    return tuple(values) if isinstance(values, list) else (values,)


def scalar_int(name: str, value: Value) -> int:
    """Return the integer in a concrete scalar input.

    Raises:
        InvalidArgumentError: it is not a scalar.
    """
    if np.ndim(value):
        raise InvalidArgumentError(
            f"{name} must be a scalar, got shape {shape_text(np.shape(value))}"
        )
    return int(value)


def checked_axis(axis: int, rank: int, what: str = "axis") -> int:
    """Return a possibly negative axis normalized to [0, rank).

    Raises:
        InvalidArgumentError: it is out of range.
    """
    if not -rank <= axis < rank:
        raise InvalidArgumentError(
            f"{what} = {axis} is out of range for a tensor of rank {rank}; "
            f"expected a value in [{-rank}, {rank})"
        )
    return axis + rank if axis < 0 else axis


def shape_text(shape: Sequence[int] | None) -> str:
    """Return a shape as TensorFlow prints it: `[2,?]`, `<unknown>` without a rank."""
    if shape is None:
        return "<unknown>"
    return "[" + ",".join("?" if size < 0 else str(size) for size in shape) + "]"


def types_text(types: Sequence[DType]) -> str:
    """Return the names of types, separated by commas."""
    return ", ".join(dtype.name for dtype in types)


def checked_shape(vector: Value, what: str = "shape") -> tuple[int, ...]:
    """Return a concrete shape vector as a tuple of sizes.

    Raises:
        InvalidArgumentError: it is not a vector, has too many elements, or a size is negative.
    """
    check_axis_count(vector, what)
    if vector.ndim != 1:
        raise InvalidArgumentError(
            f"{what} must be a vector of integers, got a tensor of shape {shape_text(vector.shape)}"
        )
    sizes = tuple(vector.tolist())
    if sizes and min(sizes) < 0:
        raise InvalidArgumentError(f"{what} {list(sizes)} has a negative size")
    return sizes


def check_size(shape: Sequence[int], what: str = "the output", *, itemsize: int = 1) -> None:
    """Check that a tensor of a shape can be allocated, before it is.

    Args:
        shape: the tensor's sizes.
        what: what the message calls the tensor.
        itemsize: the bytes of one element.

    Raises:
        InvalidArgumentError: the number of elements overflows 64 bits, as in TensorFlow.
        ResourceExhaustedError: it is larger than the session's memory budget.
    """
    count = math.prod(shape)
    if count > _MAX_INT64:
        raise InvalidArgumentError(
            f"{what} of shape {list(shape)} has more elements than 64 bits can count"
        )
    if count * itemsize > SMALL_REQUEST:
        ask_for_memory(count * itemsize, f"{what} of shape {list(shape)} has {count} elements")


def ask_for_memory(nbytes: int, what: str) -> None:
    """Check that an allocation is within the session's memory budget.

    Args:
        nbytes: its size. `SMALL_REQUEST` bytes are always granted, so callers need not ask.
        what: what it is for, with a verb: "the output has 10 elements".

    Raises:
        ResourceExhaustedError: it is not.
    """
    from graphmill.spi.kernels import request_memory  # few steps need so much

    request_memory(nbytes, what)


def is_numpy(xp: ArrayNamespace) -> bool:
    """Return whether `xp` is NumPy: values are concrete and temporaries can be reused."""
    return xp is np


def side_by_side(vectors: Any, count: int) -> Any:
    """Return NumPy vectors (…, C), each repeated to count * C elements; faster than `np.tile`."""
    shape = vectors.shape
    return vectors[..., None, :].repeat(count, -2).reshape(*shape[:-1], count * shape[-1])


def namespace_of(xp: ArrayNamespace, value: Value) -> ArrayNamespace:
    """Return the namespace for a value: NumPy for strings and variants, else `xp`, the device's.

    Strings and variants are in host memory on every device.
    """
    return np if value.dtype.kind == "O" else xp


def unfused(xp: ArrayNamespace, product: Value) -> Value:
    """Return a float product that is rounded before anything is added to it.

    XLA may fuse a product and a sum into one multiply-add, which rounds only once, so a value at a
    tie or at a bound may end up on the other side. An operation in between prevents the fusion;
    this one turns -inf into the lowest finite number.
    """
    if is_numpy(xp):
        return product
    return xp.maximum(product, xp.finfo(product.dtype).min)


def divided(xp: ArrayNamespace, value: Value, count: int) -> Value:
    """Divide float32 values by a count, correctly rounded.

    XLA multiplies by the reciprocal, which is inexact in float32; hence float64.
    """
    if is_numpy(xp):
        return value / np.float32(count)
    return (value.astype(np.float64) / count).astype(np.float32)
