"""Set operations on many elements match Python's."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill import errors
from graphmill_plugins.kernels.sparse import sets
from graphmill_plugins.kernels.sparse.sets import (
    dense_to_dense_set_operation,
    set_size,
    sparse_to_sparse_set_operation,
)

OPERATIONS = {
    "a-b": set.difference,
    "B-A": lambda a, b: b - a,
    "intersection": set.intersection,
    "union": set.union,
}
INTEGERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)
ROWS = st.lists(st.tuples(st.integers(0, 5), INTEGERS), max_size=12)
FAR = 2**40
"""Rows so far apart that positions and elements together do not fit in 64 bits."""


def sparse(elements: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    ordered = sorted(elements, key=lambda element: element[0])
    indices = [(row * FAR, place) for place, (row, _) in enumerate(ordered)]
    values = np.array([value for _, value in ordered], np.int64)
    return np.array(indices, np.int64).reshape(-1, 2), values, np.array([6 * FAR, 12])


def near(elements: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    indices, values, _ = sparse(elements)
    indices[:, 0] //= FAR
    return indices, values, np.array([6, 12])


@pytest.mark.parametrize("operation", OPERATIONS)
@given(first=ROWS, second=ROWS)
def test_sets_with_distant_values(operation: str, first, second) -> None:
    indices, values, shape = sparse_to_sparse_set_operation(
        *sparse(first), *sparse(second), operation, True
    )
    expected = []
    for row in range(6):
        both = [{value for place, value in pairs if place == row} for pairs in (first, second)]
        made = sorted(OPERATIONS[operation](*both))
        expected += [(row * FAR, place, value) for place, value in enumerate(made)]
    assert [
        (*index, value) for index, value in zip(indices.tolist(), values, strict=True)
    ] == expected
    assert shape.tolist() == [6 * FAR, max((place for _, place, _ in expected), default=-1) + 1]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("limit", [0, 1 << 20])
@given(first=ROWS, second=ROWS)
def test_tables_and_sorted_numbers_give_the_same_sets(
    operation: str, limit: int, first, second
) -> None:
    sides = [[(row, value % 7 - 3) for row, value in elements] for elements in (first, second)]
    with mock.patch.multiple(sets, _TABLE_PER_ELEMENT=0, _MIN_TABLE=limit):
        parts = [near(side) for side in sides]
        indices, values, _ = sparse_to_sparse_set_operation(*parts[0], *parts[1], operation, True)
    expected = [
        (row, value)
        for row in range(6)
        for value in sorted(
            OPERATIONS[operation](*({value for at, value in side if at == row} for side in sides))
        )
    ]
    found = zip(indices[:, 0].tolist(), values.tolist(), strict=True)
    assert list(found) == expected


@given(st.lists(st.lists(st.binary(max_size=2), min_size=3, max_size=3), min_size=1, max_size=4))
def test_sets_of_strings(rows: list[list[bytes]]) -> None:
    tensor = np.array(rows, object)
    _, values, shape = dense_to_dense_set_operation(tensor, tensor[:, ::-1], "union")
    assert values.tolist() == [value for row in rows for value in sorted(set(row))]
    assert shape.tolist() == [len(rows), max(len(set(row)) for row in rows)]


def test_size_counts_distinct_values() -> None:
    indices = np.array([[0, 0], [0, 1], [2, 0]], np.int64)
    values, shape = np.array([7, 7, 1]), np.array([3, 2])
    assert set_size(indices, values, shape, True).tolist() == [1, 0, 1]


@pytest.mark.parametrize("dtype", [np.int32, object])
@pytest.mark.parametrize("validate", [True, False])
def test_sizes_of_sets_in_any_order_count_distinct_elements(dtype: type, validate: bool) -> None:
    indices = np.array([[0, 0], [0, 1], [0, 2], [2, 0], [2, 1], [3, 0]])
    shape = np.array([4, 3])
    for elements, sizes in (
        ([1, 2, 3, 1, 2, 1], [3, 0, 2, 1]),
        ([2, 1, 3, 2, 1, 1], [3, 0, 2, 1]),
        ([2, 2, 2, 1, 1, 1], [1, 0, 1, 1]),
    ):
        values = np.array([b"%d" % one for one in elements] if dtype is object else elements, dtype)
        assert set_size(indices, values, shape, validate).tolist() == sizes
    backwards = indices[[3, 4, 0, 1, 2, 5]], np.array([1, 1, 1, 2, 1, 3])
    assert set_size(*backwards, shape, False).tolist() == [2, 0, 1, 1]


def test_indices_in_disorder_and_repeated_ones_are_told_apart() -> None:
    values, shape = np.array([1, 2]), np.array([2, 3])
    with pytest.raises(errors.InvalidArgumentError, match="out of order"):
        set_size(np.array([[1, 0], [0, 1]]), values, shape, True)
    with pytest.raises(errors.InvalidArgumentError, match="repeated"):
        set_size(np.array([[1, 0], [1, 0]]), values, shape, True)
