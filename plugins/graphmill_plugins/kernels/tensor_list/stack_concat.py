"""TensorList kernels that stack, concatenate, gather, scatter and split.

Semantics: tensorflow/core/kernels/list_kernels.h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill.spi.kernels import cancellable, shape_of_value
from graphmill_plugins.kernels._partial_shape import (
    is_compatible,
    is_fully_defined,
    merged,
    shape_of_tensor,
)
from graphmill_plugins.kernels._support import POINTER_SIZE, check_size, scalar_int, shape_text
from graphmill_plugins.kernels.tensor_list._tensor_list import TensorList
from graphmill_plugins.kernels.tensor_list.ops import (
    check_is_vector,
    check_rows,
    typed_list,
    with_elements,
)
from graphmill_plugins.kernels.unstack import joined, rows, stacked, zeros

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import ArrayNamespace, Shape, Value


def _stack(
    xp: ArrayNamespace, source: TensorList, elements: Sequence[Value], shape: Shape, verb: str
) -> Value:
    """Stack elements, with zeros for unset ones; `shape` is their partial shape."""
    if not elements and not is_fully_defined(shape):
        raise InvalidArgumentError(
            f"Tried to {verb} 0 elements of a list with non-fully-defined element_shape: "
            f"{shape_text(shape)}"
        )
    if not is_fully_defined(source.element_shape):
        shape = with_elements(shape, elements, source.element_dtype)
    if shape is None or -1 in shape:
        raise InvalidArgumentError(
            f"Tried to {verb} a list which only contains uninitialized tensors and has a "
            f"non-fully-defined element_shape: {shape_text(shape)}"
        )
    if any(element is None for element in elements):
        itemsize = source.element_dtype.as_numpy_dtype.itemsize
        check_size((len(elements), *shape), itemsize=itemsize)
        zero = zeros(xp, shape, source.element_dtype)
        elements = [zero if element is None else element for element in elements]
    return stacked(xp, elements, shape, source.element_dtype)


@kernel("TensorListStack", host=True)
def tensor_list_stack(
    xp: ArrayNamespace,
    input_handle: Value,
    element_shape: Value,
    element_dtype: np.dtype[Any],
    num_elements: int,
) -> Value:
    """Return the elements as one tensor."""
    source = typed_list(input_handle, element_dtype)
    if num_elements not in (-1, source.length):
        raise InvalidArgumentError(
            f"Operation expected a list with {num_elements} elements but got a list with "
            f"{source.length} elements."
        )
    shape = merged(shape_of_tensor(element_shape), source.element_shape)
    return _stack(xp, source, source.elements(), shape, "stack")


@kernel("TensorListGather", host=True)
def tensor_list_gather(
    xp: ArrayNamespace,
    input_handle: Value,
    indices: Value,
    element_shape: Value,
    element_dtype: np.dtype[Any],
) -> Value:
    """Return the elements at `indices` as one tensor."""
    source = typed_list(input_handle, element_dtype)
    shape = merged(shape_of_tensor(element_shape), source.element_shape)
    elements, length = source.elements(), source.length
    gathered = []
    for index in indices.ravel().tolist():
        if not 0 <= index < length:
            raise InvalidArgumentError(
                f"Trying to gather element {index} in a list with {length} elements."
            )
        gathered.append(elements[index])
    return _stack(xp, source, gathered, shape, "gather")


@kernel("TensorListScatter", "TensorListScatterV2", host=True)
def tensor_list_scatter(
    tensor: Value,
    indices: Value,
    element_shape: Value,
    num_elements: Any = None,
    *,
    element_dtype: np.dtype[Any],
) -> Value:
    """Return a list that has the rows of a tensor at `indices`."""
    dtype = dtypes.as_dtype(element_dtype)
    shape = shape_of_tensor(element_shape)
    list_size = -1 if num_elements is None else scalar_int("num_elements", num_elements)
    if list_size < -1:
        raise InvalidArgumentError(
            f"TensorListScatter expects num_elements >= -1, found: {list_size}"
        )
    actual = shape_of_value(tensor, dtype)
    positions = _positions(actual, indices)
    check_rows(actual, shape)
    highest = max(positions, default=-1)
    if 0 <= list_size <= highest:
        raise InvalidArgumentError(
            f"TensorListScatter: Trying to scatter at index {highest} in list with size {list_size}"
        )
    length = highest + 1 if list_size == -1 else list_size
    check_size((length,), "the list", itemsize=2 * POINTER_SIZE)
    elements: list[Value] = [None] * length
    for position, row in zip(positions, rows(tensor, dtype), strict=True):
        elements[position] = row
    return TensorList(dtype, shape, elements)


def _positions(shape: tuple[int, ...], indices: Value) -> list[int]:
    check_is_vector(shape)
    if indices.ndim != 1 or indices.shape[0] != shape[0]:
        raise InvalidArgumentError(
            f"Specified {indices.size} indices (of shape {shape_text(indices.shape)}) for "
            f"{shape[0]} rows: invalid number of rows in input tensor"
        )
    positions: list[int] = indices.tolist()
    if positions and min(positions) < 0:
        raise InvalidArgumentError("Indices in TensorListScatter must all be non-negative.")
    return positions


@kernel("TensorListScatterIntoExistingList", host=True)
def tensor_list_scatter_into_existing(
    input_handle: Value,
    tensor: Value,
    indices: Value,
    element_dtype: np.dtype[Any],
) -> Value:
    """Set the elements at `indices` to the rows of a tensor, and extend the list if necessary."""
    source = typed_list(input_handle, element_dtype)
    positions = _positions(shape_of_value(tensor, source.element_dtype), indices)
    highest = max(positions, default=-1)
    if highest >= source.length:
        source = source.resized(highest + 1)
    return source.replaced(positions, rows(tensor, source.element_dtype))


@kernel("TensorListSplit", host=True)
def tensor_list_split(
    tensor: Value,
    element_shape: Value,
    lengths: Value,
    element_dtype: np.dtype[Any],
) -> Value:
    """Return a list of consecutive pieces of a tensor, which are views."""
    shape, dtype = shape_of_tensor(element_shape), dtypes.as_dtype(element_dtype)
    _check_split(shape_of_value(tensor, dtype), shape, lengths)
    elements, start = [], 0
    for length in lengths.tolist():
        end = start + length
        if length < 0:
            raise InvalidArgumentError(f"Invalid value in lengths: {length}")
        if end > tensor.shape[0]:
            raise InvalidArgumentError(
                f"Attempting to slice [{start}, {end}] from tensor with length {tensor.shape[0]}"
            )
        elements.append(tensor[start:end])
        start = end
    if start != tensor.shape[0]:
        raise InvalidArgumentError(
            f"Unused values in tensor. Length of tensor: {tensor.shape[0]} Values used: {start}"
        )
    return TensorList(dtype, shape, elements)


def _check_split(actual: tuple[int, ...], shape: Shape, lengths: Value) -> None:
    if shape == ():
        raise InvalidArgumentError(
            "TensorListSplit requires element_shape to be at least of rank 1, but saw: []"
        )
    check_is_vector(actual)
    if shape is not None and not is_compatible(shape[1:], actual[1:]):
        raise InvalidArgumentError(
            f"tensor shape {shape_text(actual)} is not compatible with element_shape "
            f"{shape_text(shape)}"
        )
    if lengths.ndim != 1:
        raise InvalidArgumentError(
            f"Expected lengths to be a vector, received shape: {shape_text(lengths.shape)}"
        )


@kernel("TensorListConcat", host=True)
def tensor_list_concat(
    xp: ArrayNamespace, input_handle: Value, element_dtype: np.dtype[Any], element_shape: Shape
) -> tuple[Value, Value]:
    """Concatenate the elements along their first axis; also return their lengths."""
    source = typed_list(input_handle, element_dtype)
    rest = None if element_shape is None else element_shape[1:]
    return _concat(xp, source, -1, rest, None)


@kernel("TensorListConcatV2", host=True)
def tensor_list_concat_v2(
    xp: ArrayNamespace,
    input_handle: Value,
    element_shape: Value,
    leading_dims: Value,
    element_dtype: np.dtype[Any],
) -> tuple[Value, Value]:
    """Concatenate the elements; `leading_dims` holds the lengths of unset ones."""
    source = typed_list(input_handle, element_dtype)
    shape = merged(shape_of_tensor(element_shape), source.element_shape)
    if shape == ():
        raise InvalidArgumentError(
            "Concat requires elements to be at least vectors, found scalars instead."
        )
    first, rest = (-1, None) if shape is None else (shape[0], shape[1:])
    return _concat(xp, source, first, rest, leading_dims.ravel().tolist())


def _concat(
    xp: ArrayNamespace, source: TensorList, first: int, rest: Shape, leading: list[int] | None
) -> tuple[Value, Value]:
    elements = source.elements()
    if not elements and not is_fully_defined(rest):
        raise InvalidArgumentError(
            "All except the first dimension must be fully defined when concating an empty tensor "
            f"list. element_shape: {shape_text(rest)}"
        )
    if not is_fully_defined(source.element_shape):
        first, rest = _common_shape(elements, source.element_dtype, first, rest)
    if rest is None or -1 in rest:
        raise InvalidArgumentError(
            "Trying to concat list with only uninitialized tensors but "
            f"element_shape_except_first_dim_ is not fully defined: {shape_text(rest)}"
        )
    unset = sum(
        _leading_size(index, first, leading)
        for index, element in enumerate(elements)
        if element is None
    )
    itemsize = source.element_dtype.as_numpy_dtype.itemsize
    check_size((max(unset, 0), *rest), itemsize=2 * itemsize)  # the parts, and the result
    parts = [
        zeros(xp, (_leading_size(index, first, leading), *rest), source.element_dtype)
        if element is None
        else element
        for index, element in enumerate(cancellable(elements))
    ]
    lengths = np.array([part.shape[0] for part in parts], np.int64)
    return (joined(xp, parts) if parts else zeros(xp, (0, *rest), source.element_dtype)), lengths


def _common_shape(
    elements: Sequence[Value], dtype: dtypes.DType, first: int, rest: Shape
) -> tuple[int, Shape]:
    """Return the first size that all elements have (-1 if they differ) and the other sizes."""
    sizes = set()
    for index, element in enumerate(elements):
        if element is None:
            continue
        shape = shape_of_value(element, dtype)
        if not shape:
            raise InvalidArgumentError(
                f"Concat saw a scalar shape at index {index} but requires at least vectors."
            )
        rest = merged(rest, shape[1:])
        if first not in (-1, shape[0]):
            raise InvalidArgumentError(
                "First entry of element_shape input does not match the first dim of list element "
                f"at index: {index} Expected: {first} Actual: {shape[0]}"
            )
        sizes.add(shape[0])
    return (sizes.pop() if first == -1 and len(sizes) == 1 else first), rest


def _leading_size(index: int, first: int, leading: list[int] | None) -> int:
    if (leading is None or index >= len(leading)) and first != -1:
        return first
    if leading is None:
        raise InvalidArgumentError(
            "Concating lists with uninitialized tensors is not supported in this version of "
            "TensorListConcat; use TensorListConcatV2"
        )
    if index >= len(leading):
        raise InvalidArgumentError(
            f"List contains uninitialized tensor at index {index} but leading_dims has only "
            f"{len(leading)} elements."
        )
    return leading[index]
