"""Indices of few elements are compared with their shape as unsigned integers."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels.sparse._sparse import check_bounds, check_parts, lie_inside
from graphmill_plugins.kernels.sparse.dense import check_order

LARGEST = {np.int64: 2**63 - 1, np.int32: 2**31 - 1}


@pytest.mark.parametrize("dtype", LARGEST)
@pytest.mark.parametrize("count", [1, 400])
def test_indices_below_the_sizes_are_in_range(dtype, count):
    rows = np.tile(np.array([[1, 4]], dtype), (count, 1))
    assert lie_inside(rows, (2, 5))
    assert lie_inside(rows, (2, LARGEST[dtype]))
    for row, column, value in ((0, 0, 2), (count - 1, 1, 5), (0, 1, -1), (count - 1, 0, -1)):
        outside = rows.copy()
        outside[row, column] = value
        assert not lie_inside(outside, (2, 5))
        with pytest.raises(InvalidArgumentError, match=rf"indices\[{row}\] = .* out of bounds"):
            check_bounds(outside, (2, 5))


@pytest.mark.parametrize("check", [check_bounds, check_order])
def test_the_error_shows_a_negative_index(check):
    with pytest.raises(InvalidArgumentError, match=r"indices\[1\] = \[-1,0\] is out of bounds"):
        check(np.array([[0, 0], [-1, 0]]), (2, 3))


def test_a_negative_index_of_32_bits_is_outside_of_any_size():
    assert not lie_inside(np.array([[-1]], np.int32), (2**40,))


def test_parts_of_each_shape_are_checked_each_time():
    indices, values = np.zeros((2, 2), np.int64), np.zeros(2)
    for _ in range(2):
        assert check_parts(indices, values, np.array([3, 4])) == (3, 4)
        with pytest.raises(InvalidArgumentError, match="negative size"):
            check_parts(indices, values, np.array([3, -4]))
        with pytest.raises(InvalidArgumentError, match="Number of columns"):
            check_parts(indices, values, np.array([3, 4, 5]))
        with pytest.raises(InvalidArgumentError, match="Number of rows"):
            check_parts(indices, values[:1], np.array([3, 4]))
