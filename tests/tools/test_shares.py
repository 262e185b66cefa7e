"""Each divided test is in one share, and all others are in every run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.shares import Share, deselect_other_shares, parse_share

NAMES = [f"tests/test_it.py::test_it[{number}]" for number in range(200)]


class Item:
    def __init__(self, nodeid: str, *, is_divided: bool) -> None:
        self.nodeid = nodeid
        self._marks = {"divided"} if is_divided else set()

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self._marks else None


def taken(share: str, items: list[Any]) -> tuple[list[str], list[str]]:
    """Return the names of the items that a run selects and deselects."""
    left, deselected = list(items), []
    hook = SimpleNamespace(pytest_deselected=lambda items: deselected.extend(items))
    deselect_other_shares(SimpleNamespace(getoption=lambda _: share, hook=hook), left)  # type: ignore[arg-type]
    return [item.nodeid for item in left], [item.nodeid for item in deselected]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_shares_together_have_each_test_once(count: int) -> None:
    items = [Item(name, is_divided=True) for name in NAMES]
    runs = [taken(f"{number}/{count}", items) for number in range(1, count + 1)]
    assert sorted(name for names, _ in runs for name in names) == sorted(NAMES)
    for names, others in runs:
        assert sorted(names + others) == sorted(NAMES)
        assert names == [name for name in NAMES if name in names]  # in order


def test_shares_are_about_equal() -> None:
    sizes = [sum(Share(number, 4).has(name) for name in NAMES) for number in (1, 2, 3, 4)]
    assert min(sizes) > len(NAMES) / 8


def test_other_tests_are_in_each_run() -> None:
    items = [Item(name, is_divided=False) for name in NAMES]
    assert taken("2/3", items) == (NAMES, [])


@pytest.mark.parametrize("text", ["", "1", "0/4", "5/4", "1/0", "a/b", "1/4/2", "-1/4"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(pytest.UsageError, match="is no share of the tests"):
        parse_share(text)
