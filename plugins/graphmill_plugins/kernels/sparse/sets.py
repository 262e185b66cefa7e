"""Operations on sets along the last axis, and their sizes.

Semantics: tensorflow/core/kernels/set_kernels.cc. The elements of a result are unique and sorted.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._strings import string_array
from graphmill_plugins.kernels._support import check_size, shape_text
from graphmill_plugins.kernels.segment_reduce import run_lengths, run_starts, within_runs
from graphmill_plugins.kernels.sparse._sparse import (
    are_among,
    check_ascending,
    check_bounds,
    check_parts,
    flat_positions,
    from_positions,
)

if TYPE_CHECKING:
    from graphmill.spi import Value

_TYPES = {
    "T": (
        *(dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64),
        *(dtypes.uint8, dtypes.uint16, dtypes.string),
    )
}
_MAX_INT64 = 2**63 - 1
_TABLE_PER_ELEMENT = 8  # bytes of a table for each element, up to which it is faster than sorting
_MIN_TABLE = 1024


class _Sets(NamedTuple):
    """Sets of one operand.

    Attributes:
        outer: the shape of the array of sets.
        set_indices: for each element, the flat index of its set in row-major order.
        elements: the elements of all sets, a vector.
    """

    outer: tuple[int, ...]
    set_indices: Value
    elements: Value


def _dense_sets(tensor: Value) -> _Sets:
    if tensor.ndim < 2:
        raise InvalidArgumentError(f"Invalid input: rank {tensor.ndim}, expected at least 2")
    outer, width = tensor.shape[:-1], tensor.shape[-1]
    set_indices = np.repeat(np.arange(math.prod(outer) if width else 0), width)
    return _Sets(outer, set_indices, tensor.reshape(-1))


def _sparse_sets(indices: Value, values: Value, shape: Value, validate: bool) -> _Sets:
    sizes = check_parts(indices, values, shape)
    if len(sizes) < 2:
        raise InvalidArgumentError(f"Invalid input: rank {len(sizes)}, expected at least 2")
    outer = sizes[:-1]
    if validate:
        check_bounds(indices, sizes)
        positions = flat_positions(indices, sizes)
        if not (positions[1:] > positions[:-1]).all():
            check_ascending(indices)
    else:
        check_bounds(indices[:, :-1], outer)
    return _Sets(outer, flat_positions(indices[:, :-1], outer), values)


def _are_sorted_sets(sets: _Sets) -> bool:
    """Return whether the elements of each set ascend, without repetitions, and so do the sets.

    Results of set operations do.
    """
    set_indices, elements = sets.set_indices, sets.elements
    is_next = set_indices[1:] > set_indices[:-1]
    is_same = set_indices[1:] == set_indices[:-1]
    return bool((is_next | (is_same & (elements[1:] > elements[:-1]))).all())


class _Numbering:
    """Maps set elements to distinct integers, ascending by set and then by element.

    Args:
        operands: all sets.

    Attributes:
        limit: the integers are smaller.
        has_table: whether a table of all integers is small.
    """

    def __init__(self, *operands: _Sets) -> None:
        elements = np.concatenate([operand.elements for operand in operands])
        self._dtype = elements.dtype
        self._distinct: Value | None = None
        self._numbers: dict[bytes, int] = {}
        self._low = 0
        if elements.dtype.kind == "O":
            distinct = sorted(set(elements.tolist()))
            self._numbers = {element: number for number, element in enumerate(distinct)}
            self._distinct, self._span = string_array(distinct), len(distinct)
        elif elements.size:
            self._low = int(elements.min())
            self._span = int(elements.max()) - self._low + 1
        else:
            self._span = 1
        self._groups: Value | None = None
        last = max((int(operand.set_indices.max(initial=0)) for operand in operands), default=0)
        self.limit = (last + 1) * self._span
        self.has_table = self.limit <= max(_TABLE_PER_ELEMENT * elements.size, _MIN_TABLE)
        if self.limit > _MAX_INT64:  # would overflow, so use only codes that occur
            self._groups = np.unique(np.concatenate([operand.set_indices for operand in operands]))
            if self._distinct is None:
                self._distinct = np.unique(elements)
            self._span = len(self._distinct)

    def numbers(self, operand: _Sets) -> Value:
        """Return the sorted unique integers of an operand's elements."""
        return _without_repetitions(self.unsorted(operand))

    def table(self, operand: _Sets) -> Value:
        """Return for each integer below `limit` whether it is that of an element of an operand."""
        table = np.zeros(self.limit, np.bool_)
        table[self.unsorted(operand)] = True
        return table

    def unsorted(self, operand: _Sets) -> Value:
        """Return the integers of an operand's elements."""
        set_indices: Any = operand.set_indices
        elements = operand.elements
        if self._groups is not None:
            set_indices = np.searchsorted(self._groups, set_indices)
        if self._dtype.kind == "O":
            element_numbers = map(self._numbers.__getitem__, elements.tolist())
            codes: Any = np.fromiter(element_numbers, np.int64, len(elements))
        elif self._distinct is not None:
            codes = np.searchsorted(self._distinct, elements)
        else:
            codes = elements.astype(np.int64) - self._low
        numbers: Value = set_indices * np.int64(self._span) + codes
        return numbers

    def elements(self, numbers: Value) -> tuple[Value, Value]:
        """Return the set and the element that each integer stands for."""
        set_indices, codes = np.divmod(numbers, np.int64(self._span))
        if self._groups is not None:
            set_indices = self._groups[set_indices]
        if self._distinct is not None:
            return set_indices, self._distinct[codes]
        return set_indices, (codes + self._low).astype(self._dtype)


def _without_repetitions(numbers: Value) -> Value:
    """Return the sorted unique numbers, faster than `np.unique`, which hashes them."""
    numbers.sort()
    is_new = np.ones(len(numbers), np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=is_new[1:])
    return numbers[is_new]


def _combined(numbering: _Numbering, first: _Sets, second: _Sets, operation: str) -> Value:
    """Return the ascending integers of the elements of a result.

    Raises:
        InvalidArgumentError: there is no such operation.
    """
    name = operation.lower()
    if name not in ("a-b", "b-a", "intersection", "union"):
        raise InvalidArgumentError(
            f"Invalid set_operation {operation!r}; expected a-b, b-a, intersection or union"
        )
    if name == "b-a":
        name, first, second = "a-b", second, first
    if numbering.has_table:
        table, other = numbering.table(first), numbering.table(second)
        if name == "union":
            table |= other
        else:
            table &= other if name == "intersection" else ~other
        return table.nonzero()[0]
    numbers, others = numbering.numbers(first), numbering.numbers(second)
    if name == "union":
        return _without_repetitions(np.concatenate([numbers, others]))
    is_common = are_among(numbers, others)
    return numbers[is_common if name == "intersection" else ~is_common]


def _operate(first: _Sets, second: _Sets, operation: str) -> tuple[Value, Value, Value]:
    if first.outer != second.outer:
        raise InvalidArgumentError(
            f"Mismatched group shapes {shape_text(first.outer)} and {shape_text(second.outer)}"
        )
    numbering = _Numbering(first, second)
    numbers = _combined(numbering, first, second, operation)
    set_indices, elements = numbering.elements(numbers)
    lengths = run_lengths(run_starts(set_indices), len(set_indices))
    indices = np.empty((len(set_indices), len(first.outer) + 1), np.int64)
    indices[:, :-1] = from_positions(set_indices, first.outer)
    indices[:, -1] = within_runs(lengths)
    return indices, elements, np.array([*first.outer, lengths.max(initial=0)], np.int64)


@kernel("DenseToDenseSetOperation", types=_TYPES, host=True)
def dense_to_dense_set_operation(
    set1: Value, set2: Value, set_operation: str
) -> tuple[Value, Value, Value]:
    """Combine the sets in the last axes of two tensors into a sparse tensor."""
    return _operate(_dense_sets(set1), _dense_sets(set2), set_operation)


@kernel("DenseToSparseSetOperation", types=_TYPES, host=True)
def dense_to_sparse_set_operation(
    set1: Value,
    set2_indices: Value,
    set2_values: Value,
    set2_shape: Value,
    set_operation: str,
    validate_indices: bool,
) -> tuple[Value, Value, Value]:
    """Combine the sets of a dense and a sparse tensor into a sparse tensor."""
    second = _sparse_sets(set2_indices, set2_values, set2_shape, validate_indices)
    return _operate(_dense_sets(set1), second, set_operation)


@kernel("SparseToSparseSetOperation", types=_TYPES, host=True)
def sparse_to_sparse_set_operation(
    set1_indices: Value,
    set1_values: Value,
    set1_shape: Value,
    set2_indices: Value,
    set2_values: Value,
    set2_shape: Value,
    set_operation: str,
    validate_indices: bool,
) -> tuple[Value, Value, Value]:
    """Combine the sets of two sparse tensors into a sparse tensor."""
    first = _sparse_sets(set1_indices, set1_values, set1_shape, validate_indices)
    second = _sparse_sets(set2_indices, set2_values, set2_shape, validate_indices)
    return _operate(first, second, set_operation)


@kernel("SetSize", types=_TYPES, host=True)
def set_size(indices: Value, values: Value, shape: Value, validate_indices: bool) -> Value:
    """Return the number of distinct elements in each set of a sparse tensor."""
    sets = _sparse_sets(indices, values, shape, validate_indices)
    check_size(sets.outer, itemsize=4)
    set_indices = sets.set_indices
    if not _are_sorted_sets(sets):
        numbering = _Numbering(sets)
        set_indices, _ = numbering.elements(numbering.numbers(sets))
    return (
        np.bincount(set_indices, minlength=math.prod(sets.outer))
        .astype(np.int32)
        .reshape(sets.outer)
    )
