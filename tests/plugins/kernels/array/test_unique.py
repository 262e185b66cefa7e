"""All algorithms find the same distinct elements."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from graphmill_plugins.kernels.array import unique as unique_module
from graphmill_plugins.kernels.array.unique import _MIN_HASHED, _SPREADING, unique, where

INVERSE = pow(_SPREADING, -1, 1 << 64)


@pytest.mark.parametrize(
    "value_of",
    [
        pytest.param(lambda number: number, id="close together"),
        pytest.param(lambda number: number << 40, id="far apart"),
        pytest.param(lambda number: -number * 10**14, id="negative"),
        pytest.param(lambda number: number * INVERSE % (1 << 64) - (1 << 63), id="of equal hashes"),
    ],
)
def test_far_integers_are_numbered_as_they_occur(value_of):
    numbers = np.random.default_rng(7).integers(0, _MIN_HASHED, 3 * _MIN_HASHED)
    x = np.array([value_of(number) for number in numbers.tolist()], np.int64)
    seen: dict[int, int] = {}
    expected = [seen.setdefault(value, len(seen)) for value in x.tolist()]
    distinct, found = unique(x, out_idx=np.dtype(np.int32))
    assert distinct.tolist() == list(seen)
    assert found.tolist() == expected


@given(
    st.sampled_from([np.int8, np.uint8, np.int32, np.int64, np.uint64]).flatmap(
        lambda dtype: hnp.arrays(dtype, st.integers(0, 40))
    )
)
def test_few_integers_are_numbered_by_lists_and_by_arrays_alike(x):
    def found(most_listed: int) -> list[np.ndarray]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(unique_module, "_MAX_LISTED", most_listed)
            return list(unique(x, out_idx=np.dtype(np.int64)))

    for by_list, by_array in zip(found(64), found(-1), strict=True):
        assert by_list.dtype == by_array.dtype
        assert by_list.tolist() == by_array.tolist()


@given(hnp.arrays(st.sampled_from([np.bool_, np.float32, np.int64]), st.integers(0, 90)))
def test_indices_of_a_vector_are_those_of_argwhere(condition):
    found, expected = where(condition), np.argwhere(condition)
    assert found.dtype == expected.dtype
    assert found.tolist() == expected.tolist()
    assert found.shape == expected.shape
