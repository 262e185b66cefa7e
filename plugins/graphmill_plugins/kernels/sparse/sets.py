"""Operations on sets along the last axis, and their sizes.

Semantics: tensorflow/core/kernels/set_kernels.cc. A set comes out without repetitions, ascending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.runtime.kernel import kernel
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.sparse._sparse import check_bounds, check_parts, order_of

if TYPE_CHECKING:
    from graphmill.typing import ArrayNamespace, Value

    Groups = dict[tuple[int, ...], set[Any]]

_TYPES = {
    "T": (
        *(dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64),
        *(dtypes.uint8, dtypes.uint16, dtypes.string),
    )
}
_OPERATIONS = {
    "a-b": set.difference,
    "b-a": lambda a, b: b - a,
    "intersection": set.intersection,
    "union": set.union,
}


def _dense_groups(tensor: Value) -> tuple[Groups, tuple[int, ...]]:
    if tensor.ndim < 2:
        raise InvalidArgumentError(f"Invalid input: rank {tensor.ndim}, expected at least 2")
    outer = tensor.shape[:-1]
    rows = tensor.reshape(-1, tensor.shape[-1]) if tensor.size else np.zeros((0, 0))
    if not tensor.size:
        return {}, outer
    return {
        place: set(row) for place, row in zip(np.ndindex(outer), rows.tolist(), strict=True)
    }, outer


def _sparse_groups(
    indices: Value, values: Value, shape: Value, validate: bool
) -> tuple[Groups, tuple[int, ...]]:
    sizes = check_parts(indices, values, shape)
    if len(sizes) < 2:
        raise InvalidArgumentError(f"Invalid input: rank {len(sizes)}, expected at least 2")
    if validate:
        check_bounds(indices, sizes)
        order = order_of(indices)
        if (np.diff(order) < 0).any():
            raise InvalidArgumentError("indices are out of order; sort them by SparseReorder")
        if len(indices) > 1 and (np.diff(indices, axis=0) == 0).all(axis=1).any():
            raise InvalidArgumentError("indices are repeated")
    groups: Groups = {}
    for place, value in zip(indices[:, :-1].tolist(), values.tolist(), strict=True):
        groups.setdefault(tuple(place), set()).add(value)
    return groups, sizes[:-1]


def _operate(
    first: tuple[Groups, tuple[int, ...]],
    second: tuple[Groups, tuple[int, ...]],
    operation: str,
    values: Value,
) -> tuple[Value, Value, Value]:
    if first[1] != second[1]:
        raise InvalidArgumentError(
            f"Mismatched group shapes {shape_text(first[1])} and {shape_text(second[1])}"
        )
    function = _OPERATIONS.get(operation.lower())
    if function is None:
        raise InvalidArgumentError(
            f"Invalid set_operation {operation!r}; expected one of {sorted(_OPERATIONS)}"
        )
    indices: list[tuple[int, ...]] = []
    elements: list[Any] = []
    longest = 0
    for place in sorted(first[0].keys() | second[0].keys()):
        result = sorted(function(first[0].get(place, set()), second[0].get(place, set())))
        indices += [(*place, position) for position in range(len(result))]
        elements += result
        longest = max(longest, len(result))
    out = np.empty(len(elements), values.dtype)
    out[:] = elements
    rank = len(first[1]) + 1
    return (
        np.array(indices, np.int64).reshape(-1, rank),
        out,
        np.array([*first[1], longest], np.int64),
    )


@kernel("DenseToDenseSetOperation", types=_TYPES, host=True)
def dense_to_dense_set_operation(
    _xp: ArrayNamespace, set1: Value, set2: Value, set_operation: str
) -> tuple[Value, Value, Value]:
    """Combine the sets in the last axes of two tensors; gives a sparse tensor."""
    return _operate(_dense_groups(set1), _dense_groups(set2), set_operation, set1)


@kernel("DenseToSparseSetOperation", types=_TYPES, host=True)
def dense_to_sparse_set_operation(
    _xp: ArrayNamespace,
    set1: Value,
    set2_indices: Value,
    set2_values: Value,
    set2_shape: Value,
    set_operation: str,
    validate_indices: bool,
) -> tuple[Value, Value, Value]:
    """Combine the sets of a tensor and of a sparse tensor; gives a sparse tensor."""
    second = _sparse_groups(set2_indices, set2_values, set2_shape, validate_indices)
    return _operate(_dense_groups(set1), second, set_operation, set1)


@kernel("SparseToSparseSetOperation", types=_TYPES, host=True)
def sparse_to_sparse_set_operation(
    _xp: ArrayNamespace,
    set1_indices: Value,
    set1_values: Value,
    set1_shape: Value,
    set2_indices: Value,
    set2_values: Value,
    set2_shape: Value,
    set_operation: str,
    validate_indices: bool,
) -> tuple[Value, Value, Value]:
    """Combine the sets of two sparse tensors; gives a sparse tensor."""
    first = _sparse_groups(set1_indices, set1_values, set1_shape, validate_indices)
    second = _sparse_groups(set2_indices, set2_values, set2_shape, validate_indices)
    return _operate(first, second, set_operation, set1_values)


@kernel("SetSize", types=_TYPES, host=True)
def set_size(
    _xp: ArrayNamespace, indices: Value, values: Value, shape: Value, validate_indices: bool
) -> Value:
    """Return the number of different elements in each set of a sparse tensor."""
    groups, outer = _sparse_groups(indices, values, shape, validate_indices)
    out = np.zeros(outer, np.int32)
    for place, elements in groups.items():
        out[place] = len(elements)
    return out
