"""Persistent lists return correct values along all histories, and fast along one."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill_plugins.kernels.tensor_list._persistent_list import PersistentList

_changes = st.one_of(
    st.tuples(st.just("extend"), st.lists(st.integers(), max_size=3)),
    st.tuples(st.just("cut"), st.integers(0, 8)),
    st.tuples(st.just("replace"), st.lists(st.tuples(st.integers(0, 8), st.integers()))),
)


def change(made: PersistentList, model: list[Any], what: str, how: Any) -> tuple[Any, list[Any]]:
    """Apply a change to a list and to its expected contents."""
    if what == "extend":
        return made.extended(how), model + how
    if what == "cut":
        length = min(how, len(model))
        return made.cut(length), model[:length]
    pairs = [(index % len(model), value) for index, value in how] if model else []
    expected = model.copy()
    for index, value in pairs:
        expected[index] = value
    return made.replaced([i for i, _ in pairs], [v for _, v in pairs]), expected


@given(st.lists(st.tuples(st.integers(0, 30), _changes, st.integers(0, 30)), max_size=40))
def test_persistent_versions_are_immutable(steps):
    versions: list[tuple[PersistentList, list[Any]]] = [(PersistentList(range(5)), [*range(5)])]
    for source, (what, how), looked_at in steps:
        made, model = versions[source % len(versions)]
        versions.append(change(made, model, what, how))
        seen, expected = versions[looked_at % len(versions)]
        assert [seen.item(index) for index in range(seen.length)] == expected
    for made, model in versions:
        assert made.to_list() == model
        assert made.length == len(model)


def test_a_loop_of_changes_makes_no_copy():
    made = PersistentList([0] * 1000)
    items, kept = made.items, [made]
    for index in range(1000):
        made = made.replaced((index,), (index,))
        kept.append(made)
        assert kept[-2].item(index) == 0  # an older version, as the other branch of a loop reads it
    assert made.items is items
    assert made.to_list() == list(range(1000))
    assert kept[500].item(499) == 499
    assert kept[500].item(500) == 0


def test_only_parted_histories_copy():
    start = PersistentList([1, 2, 3])
    one = start.replaced((0,), (7,))
    other = start.replaced((0,), (8,))
    assert one.items is not other.items
    first, second = one.items, other.items
    for value in range(10):
        one, other = one.replaced((1,), (value,)), other.replaced((2,), (value,))
    assert one.items is first
    assert other.items is second
    assert (one.to_list(), other.to_list(), start.to_list()) == ([7, 9, 3], [8, 2, 9], [1, 2, 3])


def test_old_versions_do_not_retain_dropped_elements():
    class Big:
        pass

    import weakref

    big = Big()
    gone = weakref.ref(big)
    made = PersistentList([big])
    del big
    made = made.replaced((0,), (None,))
    assert gone() is None
    assert made.to_list() == [None]


def test_a_long_history_is_dropped_without_deep_recursion():
    first = made = PersistentList()
    for value in range(200_000):
        made = made.extended((value,))
    assert first.length == 0
    assert made.length == 200_000
    del made
    del first


@pytest.mark.parametrize("index", [-1, 3])
def test_an_index_out_of_range_is_an_error(index):
    with pytest.raises(IndexError):
        PersistentList([1, 2, 3]).item(index)


def test_threads_may_read_and_change_versions_of_one_history():
    start = PersistentList(range(100))
    failures = []

    def work(number: int) -> None:
        made = start
        for index in range(100):
            made = made.replaced((index,), (number,))
            if start.item(index) != index:
                failures.append(index)
        if made.to_list() != [number] * 100:
            failures.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert start.to_list() == list(range(100))
