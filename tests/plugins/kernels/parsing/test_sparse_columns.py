"""The places of values in sparse columns are computed once for a layout."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill_plugins.kernels.parsing import _columns
from graphmill_plugins.kernels.parsing._batch_scan import FeatureRows
from graphmill_plugins.kernels.parsing._columns import sparse_columns, sparse_values


def rows(*counts: int) -> FeatureRows:
    each = counts[0] if len(set(counts)) == 1 else None
    return FeatureRows(np.arange(sum(counts)), np.array(counts, np.int64), None, each)


def parts(columns):
    found = sparse_columns(columns, is_batch=True)
    for column, arrays in zip(columns, found, strict=True):
        for array, expected in zip(arrays, sparse_values(column, is_batch=True), strict=True):
            assert array.dtype == expected.dtype
            assert np.array_equal(array, expected)
    return found


@pytest.mark.parametrize(
    "columns", [[rows(2, 2), rows(0, 0), rows(3, 3)], [rows(1)], [rows(2, 2), rows(1, 3)]]
)
def test_columns_are_those_of_single_columns(columns):
    parts(columns)


def test_places_of_equal_layouts_are_shared_and_read_only():
    (indices, values, shape), _ = parts([rows(2, 2), rows(1, 1)])
    again = parts([rows(2, 2), rows(1, 1)])[0]
    assert again[0] is indices
    assert again[2] is shape
    assert again[1] is not values
    assert not indices.flags.writeable
    assert not shape.flags.writeable
    assert parts([rows(2, 2), rows(1, 1), rows(1, 1)])[0][0] is not indices


def test_places_of_many_values_are_not_kept(monkeypatch):
    monkeypatch.setattr(_columns, "_MAX_CACHED", 5)
    (first,), (second,) = parts([rows(3, 3)]), parts([rows(3, 3)])
    assert first[0] is not second[0]
    assert first[0].flags.writeable
