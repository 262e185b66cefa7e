"""Reductions of many short rows equal `ufunc.reduce`."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill_plugins.kernels.small_axis import are_short, log_softmax, reduced


@pytest.mark.parametrize("shape", [(2000, 2), (30, 40, 5)])
@pytest.mark.parametrize("ufunc", [np.add, np.maximum, np.multiply])
@pytest.mark.parametrize("keep_dims", [True, False])
def test_reductions_equal_those_of_ufuncs(shape, ufunc, keep_dims):
    x = np.random.default_rng(0).random(shape)
    assert are_short(x)
    expected = ufunc.reduce(x, axis=-1, keepdims=keep_dims)
    np.testing.assert_allclose(reduced(ufunc, x, None, keep_dims=keep_dims), expected, rtol=1e-12)


def test_log_softmax_of_short_rows_is_exact():
    x = np.random.default_rng(0).standard_normal((50, 50, 3))
    expected = x - np.log(np.exp(x).sum(axis=-1, keepdims=True))
    np.testing.assert_allclose(log_softmax(x), expected, rtol=1e-12)


@pytest.mark.parametrize("shape", [(2048,), (2000, 1), (100, 100), (10, 10), (0, 4)])
def test_small_axis_path_needs_short_axis_and_many_rows(shape):
    assert not are_short(np.zeros(shape))
