"""The executors cache (clause S5) is bounded, shared between orders, and warns about growth."""

from __future__ import annotations

import warnings

from graphmill.session.executors_cache import (
    ExecutorsAndKeys,
    ExecutorsCache,
    ExecutorsCacheWarning,
    Signature,
)


def make(key: Signature) -> ExecutorsAndKeys:
    feeds, fetches, targets = key
    return ExecutorsAndKeys((), feeds, fetches, targets, (), (), ())


def key(*fetches: str, feeds: tuple[str, ...] = ()) -> Signature:
    return feeds, fetches, ()


def test_s5_one_entry_serves_all_orders_of_a_signature() -> None:
    cache = ExecutorsCache()
    one = cache.get_or_create(key("a:0", "b:0", feeds=("x:0", "y:0")), make)
    other = cache.get_or_create(key("b:0", "a:0", feeds=("y:0", "x:0")), make)
    assert one.executors is other.executors
    assert one.feed_order is None
    assert other.feed_order == (1, 0)
    assert other.fetch_order == (1, 0)
    assert len(cache) == 1


def test_s5_the_first_of_two_racing_threads_wins() -> None:
    cache = ExecutorsCache()
    winner = []

    def slow(signature: Signature) -> ExecutorsAndKeys:
        winner.append(cache.get_or_create(key("a:0"), make))  # another thread is first meanwhile
        return make(signature)

    entry = cache.get_or_create(key("a:0"), slow)
    assert entry.executors is winner[0].executors
    assert len(cache) == 1


def test_s5_least_recently_used_executor_is_evicted() -> None:
    cache = ExecutorsCache(capacity=2)
    for step, name in enumerate(["a:0", "b:0"], start=1):
        cache.get_or_create(key(name), make).executors.last_step = step
    cache.get_or_create(key("a:0"), make).executors.last_step = 3
    cache.get_or_create(key("c:0"), make)
    assert cache.find(key("a:0")) is not None
    assert cache.find(key("b:0")) is None
    assert (len(cache), cache.num_evicted) == (2, 1)


def test_s5_cache_growth_warns_once_with_calling_line() -> None:
    cache = ExecutorsCache(warn_at=3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in range(5):
            cache.get_or_create(key(f"a:{number}"), make)
    assert [w.category for w in caught] == [ExecutorsCacheWarning]
    assert caught[0].filename == __file__
