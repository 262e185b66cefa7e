"""A node rebuilds its dense columns only if keys or default values have changed."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels.parsing.example import dense_column_cache

DEFAULT = np.zeros(1, np.float32)


def test_the_columns_follow_keys_and_defaults():
    cache = dense_column_cache([np.dtype(np.float32)], [(1,)])
    (first,) = cache.of([DEFAULT], [b"a"])
    assert (first.key, first.default) == (b"a", DEFAULT)
    assert cache.of([DEFAULT], [b"a"])[0] is first
    (second,) = cache.of([DEFAULT], [b"b"])
    assert second.key == b"b"
    (third,) = cache.of([np.ones(1, np.float32)], [b"b"])
    assert third.default.tolist() == [1.0]


def test_an_invalid_default_is_refused_each_time():
    cache = dense_column_cache([np.dtype(np.float32)], [(1,)])
    cache.of([DEFAULT], [b"a"])
    for _ in range(2):
        with pytest.raises(InvalidArgumentError, match="is not compatible"):
            cache.of([np.zeros(2, np.float32)], [b"a"])
        with pytest.raises(InvalidArgumentError, match="expected one of each per key"):
            cache.of([], [b"a"])
