"""String helpers process equal strings once, and packed strings keep their positions."""

from __future__ import annotations

import pytest

from graphmill_plugins.kernels._strings import map_distinct
from graphmill_plugins.kernels.packed_strings import PackedStrings


@pytest.mark.parametrize(
    ("items", "calls"), [([b"a", b"b"] * 4, 2), ([b"a", b"b", b"c"], 3), ([], 0)]
)
def test_equal_strings_are_worked_on_once_where_many_are_equal(items, calls):
    seen = []

    def length(item):
        seen.append(item)
        return len(item)

    assert list(map_distinct(length, items)) == [len(item) for item in items]
    assert len(seen) == calls


@pytest.mark.parametrize("items", [[], [b""], [b"ab", b"", b"c"], [b"a\0b", b"\0", b"xyz"]])
def test_packed_strings_have_sizes_and_words(items):
    packed = PackedStrings(items)
    places = zip(packed.starts.tolist(), packed.sizes.tolist(), strict=True)
    assert [packed.text[start : start + size] for start, size in places] == items
    words = packed.words_at(packed.starts)
    assert [int(word) & 0xFF for word in words] == [(item + b"\0")[0] for item in items]
