"""Tensor list kernels: immutable lists of tensors for loops and their gradients.

Semantics: tensorflow/core/kernels/list_kernels.cc and list_kernels.h. The lists themselves are in
`_tensor_list`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill.spi.kernels import shape_of_value
from graphmill_plugins.kernels._partial_shape import (
    is_compatible,
    is_fully_defined,
    merged,
    shape_of_tensor,
)
from graphmill_plugins.kernels._support import POINTER_SIZE, check_size, shape_text
from graphmill_plugins.kernels.tensor_list._tensor_list import TensorList
from graphmill_plugins.kernels.unstack import rows, zeros

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.dtypes import DType
    from graphmill.spi import ArrayNamespace, Shape, Value

# Kernels of lists take the element type as a NumPy dtype; strings, handles and quantized types are
# distinguished by `as_dtype`.


def list_of(handle: Any) -> TensorList:
    """Return the list that a variant holds.

    Raises:
        InvalidArgumentError: the variant is not a scalar, or does not hold a list.
    """
    if isinstance(handle, TensorList):
        return handle
    shape = shape_of_value(handle, dtypes.variant)
    if shape != ():
        raise InvalidArgumentError(f"Input list must be a scalar saw: {shape_text(shape)}")
    value = handle.item() if isinstance(handle, np.ndarray) else handle
    if not isinstance(value, TensorList):
        raise InvalidArgumentError(f"Input handle is not a list. Saw: {value!r}")
    return value


def typed_list(handle: Any, element_dtype: np.dtype[Any]) -> TensorList:
    """Return the list that a variant holds, checked for the element type of the op.

    Raises:
        InvalidArgumentError: the variant does not hold a list of this type.
    """
    tensor_list = list_of(handle)
    dtype = dtypes.as_dtype(element_dtype)
    if tensor_list.element_dtype is not dtype:
        raise InvalidArgumentError(
            f"Invalid data types; op elements {dtype.tf_name} but list elements "
            f"{tensor_list.element_dtype.tf_name}"
        )
    return tensor_list


def _scalar(tensor: Value, what: str) -> int:
    if tensor.ndim:
        raise InvalidArgumentError(
            f"{what} expected to be a scalar but got shape: {shape_text(tensor.shape)}"
        )
    return int(tensor)


def _requested_shape(element_shape: Value, source: TensorList) -> Shape:
    return merged(shape_of_tensor(element_shape), source.element_shape)


def _defined(shape: Shape, what: str) -> tuple[int, ...]:
    if shape is None or -1 in shape:
        raise InvalidArgumentError(f"{what}: {shape_text(shape)}")
    return shape


def with_elements(shape: Shape, elements: Iterable[Value], dtype: DType) -> Shape:
    """Return a partial shape merged with those of the elements."""
    for element in elements:
        if element is not None:
            shape = merged(shape, shape_of_value(element, dtype))
    return shape


@kernel("EmptyTensorList", host=True)
def empty_tensor_list(
    element_shape: Value,
    max_num_elements: Value,
    element_dtype: np.dtype[Any],
) -> Value:
    """Return an empty list."""
    limit = _scalar(max_num_elements, "max_num_elements")
    shape = shape_of_tensor(element_shape)
    return TensorList(dtypes.as_dtype(element_dtype), shape, (), limit)


@kernel("TensorListReserve", host=True)
def tensor_list_reserve(
    element_shape: Value, num_elements: Value, element_dtype: np.dtype[Any]
) -> Value:
    """Return a list of unset elements."""
    length = _scalar(num_elements, "num_elements")
    if length < 0:
        raise InvalidArgumentError(
            f"The num_elements to reserve must be a non negative number, but got {length}"
        )
    check_size((length,), "the list", itemsize=POINTER_SIZE)
    shape = shape_of_tensor(element_shape)
    return TensorList(dtypes.as_dtype(element_dtype), shape, [None] * length)


@kernel("TensorListLength", host=True)
def tensor_list_length(input_handle: Value) -> Value:
    """Return the number of elements."""
    return np.int32(list_of(input_handle).length)


@kernel("TensorListElementShape", host=True)
def tensor_list_element_shape(input_handle: Value, shape_type: np.dtype[Any]) -> Value:
    """Return the elements' partial shape; -1 for an unknown rank."""
    shape = list_of(input_handle).element_shape
    return np.array(-1 if shape is None else shape, shape_type)


@kernel("TensorListResize", host=True)
def tensor_list_resize(input_handle: Value, size: Value) -> Value:
    """Return the list truncated, or extended by unset elements."""
    source = list_of(input_handle)
    length = _scalar(size, "size")
    if length < 0:
        raise InvalidArgumentError(
            f"TensorListSlice expects size to be non-negative. Got: {length}"
        )
    check_size((length,), "the list", itemsize=POINTER_SIZE)
    return source.resized(length)


@kernel("TensorListGetItem", host=True)
def tensor_list_get_item(
    xp: ArrayNamespace,
    input_handle: Value,
    index: Value,
    element_shape: Value,
    element_dtype: np.dtype[Any],
) -> Value:
    """Return one element; zeros if it is unset."""
    source = typed_list(input_handle, element_dtype)
    if index.size != 1:  # a vector of one element is accepted as a scalar
        raise InvalidArgumentError(f"index must be a scalar, got shape {list(index.shape)}")
    position = index.item()
    if not 0 <= position < source.length:
        raise InvalidArgumentError(
            f"Trying to access element {position} in a list with {source.length} elements."
        )
    element = source.element(position)
    if element is not None:
        return element
    shape = _requested_shape(element_shape, source)
    if not is_fully_defined(shape):
        shape = with_elements(shape, source.elements(), source.element_dtype)
    what = (
        "Trying to read an uninitialized tensor but element_shape is not fully defined and no "
        "list element is set"
    )
    sizes = _defined(shape, what)
    check_size(sizes, "the element", itemsize=source.element_dtype.as_numpy_dtype.itemsize)
    return zeros(xp, sizes, source.element_dtype)


@kernel("TensorListSetItem", host=True)
def tensor_list_set_item(
    input_handle: Value,
    index: Value,
    item: Value,
    element_dtype: np.dtype[Any],
    resize_if_index_out_of_bounds: bool,
) -> Value:
    """Return the list with one element replaced."""
    source = typed_list(input_handle, element_dtype)
    position = _scalar(index, "index")
    if position < 0 or (position >= source.length and not resize_if_index_out_of_bounds):
        raise InvalidArgumentError(
            f"Trying to modify element {position} in a list with {source.length} elements."
        )
    shape = shape_of_value(item, source.element_dtype)
    if not is_compatible(source.element_shape, shape):
        raise InvalidArgumentError(
            "Tried to set a tensor with incompatible shape at a list index. Item element shape: "
            f"{shape_text(shape)} list shape: {shape_text(source.element_shape)}"
        )
    if position >= source.length:
        source = source.resized(position + 1)
    return source.replaced((position,), (item,))


def _check_appendable(source: TensorList, shape: tuple[int, ...]) -> None:
    if not is_compatible(source.element_shape, shape):
        raise InvalidArgumentError(
            "Tried to append a tensor with incompatible shape to a list. Op element shape: "
            f"{shape_text(shape)} list shape: {shape_text(source.element_shape)}"
        )
    if 0 <= source.max_num_elements <= source.length:
        raise InvalidArgumentError(
            f"Tried to push item into a full list list size: {source.length} max_num_elements: "
            f"{source.max_num_elements}"
        )


@kernel("TensorListPushBack", host=True)
def tensor_list_push_back(
    input_handle: Value, tensor: Value, element_dtype: np.dtype[Any]
) -> Value:
    """Return the list with one more element."""
    source = typed_list(input_handle, element_dtype)
    _check_appendable(source, shape_of_value(tensor, source.element_dtype))
    return source.pushed(tensor)


@kernel("TensorListPushBackBatch", host=True)
def tensor_list_push_back_batch(
    input_handles: Value, tensor: Value, element_dtype: np.dtype[Any]
) -> Value:
    """Append one row of a tensor to each of several lists."""
    shape, dtype = shape_of_value(input_handles, dtypes.variant), dtypes.as_dtype(element_dtype)
    actual = shape_of_value(tensor, dtype)
    if not actual or actual[: len(shape)] != shape or len(shape) != 1:
        raise InvalidArgumentError(
            "the tensor must have one row for each list: the lists have shape "
            f"{shape_text(shape)}, the tensor {shape_text(actual)}"
        )
    result = np.empty(shape, object)
    parts = rows(tensor, dtype)
    for index, (handle, part) in enumerate(zip(input_handles, parts, strict=True)):
        source = typed_list(handle, element_dtype)
        _check_appendable(source, shape_of_value(part, source.element_dtype))
        result[index] = source.pushed(part)
    return result


@kernel("TensorListPopBack", host=True)
def tensor_list_pop_back(
    xp: ArrayNamespace, input_handle: Value, element_shape: Value, element_dtype: np.dtype[Any]
) -> tuple[Value, Value]:
    """Return the list without its last element, and that element."""
    source = typed_list(input_handle, element_dtype)
    if not source.length:
        raise InvalidArgumentError("Trying to pop from an empty list.")
    element = source.element(source.length - 1)
    if element is None:
        what = "Trying to read an uninitialized tensor but element_shape is not fully defined"
        shape = _defined(_requested_shape(element_shape, source), what)
        element = zeros(xp, shape, source.element_dtype)
    return source.resized(source.length - 1), element


@kernel("TensorListConcatLists", host=True)
def tensor_list_concat_lists(input_a: Value, input_b: Value, element_dtype: np.dtype[Any]) -> Value:
    """Concatenate each list of one tensor with the list at the same position of another."""
    shape, other = (shape_of_value(value, dtypes.variant) for value in (input_a, input_b))
    if shape != other:
        raise InvalidArgumentError(
            "input_a and input_b must have the same shape; saw: "
            f"{shape_text(shape)} vs. {shape_text(other)}"
        )
    if not shape:
        return _concat_two(input_a, input_b, element_dtype)
    result = np.empty(shape, object)
    for index in np.ndindex(shape):
        result[index] = _concat_two(input_a[index], input_b[index], element_dtype)
    return result


def _concat_two(a: Value, b: Value, element_dtype: np.dtype[Any]) -> TensorList:
    first, second = typed_list(a, element_dtype), typed_list(b, element_dtype)
    shape = _identical(first.element_shape, second.element_shape)
    limit = max(first.max_num_elements, second.max_num_elements)
    elements = [*first.elements(), *second.elements()]
    return TensorList(first.element_dtype, shape, elements, limit)


def _identical(a: Shape, b: Shape) -> Shape:
    if a != b:
        raise InvalidArgumentError(
            "input_a and input_b TensorList element shapes are not identical: "
            f"{shape_text(a)} vs. {shape_text(b)}"
        )
    return a


@kernel("TensorListFromTensor", host=True)
def tensor_list_from_tensor(
    tensor: Value, element_shape: Value, element_dtype: np.dtype[Any]
) -> Value:
    """Return a list of the rows of a tensor, which are views."""
    dtype: DType = dtypes.as_dtype(element_dtype)
    shape = shape_of_tensor(element_shape)
    check_rows(shape_of_value(tensor, dtype), shape)
    return TensorList(dtype, shape, rows(tensor, dtype))


def check_is_vector(shape: tuple[int, ...]) -> None:
    """Raise InvalidArgumentError unless a tensor of this shape has rows."""
    if not shape:
        raise InvalidArgumentError("Tensor must be at least a vector, but saw shape: []")


def check_rows(actual: tuple[int, ...], shape: Shape) -> None:
    """Raise InvalidArgumentError unless a tensor has rows, which fit the shape of a list."""
    check_is_vector(actual)
    if not is_compatible(shape, actual[1:]):
        raise InvalidArgumentError(
            f"Specified a list with shape {shape_text(shape)} from a tensor with shape "
            f"{shape_text(actual[1:])}"
        )
