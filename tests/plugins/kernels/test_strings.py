"""String helpers process equal strings once, and packed strings keep their positions."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from graphmill.errors import CancelledError
from graphmill.runtime.steps.step_runner import running
from graphmill_plugins.kernels._strings import (
    map_distinct,
    map_numbers,
    map_strings,
    string_array,
)
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


@pytest.mark.parametrize("function", [map_strings, lambda f, value: map_numbers(f, value, object)])
def test_work_on_many_strings_ends_when_the_step_is_cancelled(function):
    few, many = (string_array([b"1"] * count) for count in (1000, 5000))
    with running(SimpleNamespace(is_cancelled=True)):
        assert len(function(bytes, few)) == 1000
        with pytest.raises(CancelledError):
            function(bytes, many)
    assert len(function(bytes, many)) == 5000
