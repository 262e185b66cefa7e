"""An index over integer keys returns the table's values."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill_plugins.kernels.lookup._integer_index import IntegerIndex

KEYS = np.array([-(2**63), -6, -5, 0, 7, 8, 90, 2**63 - 1] * 10)


@pytest.mark.parametrize("dtype", [np.float32, object])
def test_keys_get_their_values_and_others_the_default(dtype):
    entries = {-5: 1, 0: 2, 7: 3, 90: 4} if dtype is not object else {-5: b"a", 7: b"b"}
    index = IntegerIndex(np.dtype(dtype))
    for default in (dtype(9), dtype(8)) if dtype is not object else (b"x", b"y"):
        found = index.find(entries, KEYS, np.array([default], dtype))
        assert found.tolist() == [entries.get(key, default) for key in KEYS.tolist()]


def test_changed_table_is_indexed_again():
    index, default = IntegerIndex(np.dtype(np.int64)), np.array([0])
    assert index.find({0: 1}, KEYS, default)[3] == 1
    assert index.find({0: 2}, KEYS, default)[3] == 2


@pytest.mark.parametrize(
    ("entries", "count"), [({0: 1, 2**62: 2}, 80), ({0: 1}, 8), (dict.fromkeys(range(100), 1), 80)]
)
def test_sparse_or_rare_keys_use_the_dictionary(entries, count):
    index = IntegerIndex(np.dtype(np.int64))
    assert index.find(entries, KEYS[:count], np.array([0])) is None
