"""All algorithms find the same distinct elements."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill_plugins.kernels.array.unique import _MIN_HASHED, _SPREADING, unique

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
