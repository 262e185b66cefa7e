"""Results for constant filters are kept as long as the filters; others are computed anew."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphmill.spi.kernels import freeze
from graphmill_plugins.kernels.nn.conv.constant_filters import FilterCache, never_changes


def counted() -> tuple[FilterCache[Any], list[Any]]:
    calls: list[Any] = []

    def total(kernel: Any) -> float:
        calls.append(kernel.shape)
        return float(kernel.sum())

    return FilterCache(total), calls


def test_result_for_a_constant_is_computed_once() -> None:
    cache, calls = counted()
    kernel = freeze(np.ones(3))
    assert [cache.get(kernel), cache.get(kernel)] == [3, 3]
    assert len(calls) == 1


def test_result_for_a_writable_filter_is_computed_in_each_call() -> None:
    cache, calls = counted()
    kernel = np.ones(3)
    assert cache.get(kernel) == 3
    kernel[0] = 5
    assert cache.get(kernel) == 7
    assert len(calls) == 2
    assert len(cache) == 0


def test_result_is_dropped_with_its_filter() -> None:
    cache, _ = counted()
    kernel = freeze(np.ones(3))
    cache.get(kernel)
    assert len(cache) == 1
    del kernel
    assert len(cache) == 0


def test_read_only_view_of_writable_memory_may_change() -> None:
    view = np.ones(3)[:]
    view.flags.writeable = False
    assert not never_changes(view)


def test_memory_of_bytes_never_changes() -> None:
    assert never_changes(np.frombuffer(b"12345678", np.float32).reshape(2, 1))
    assert not never_changes(np.frombuffer(bytearray(8), np.float32))


def test_read_only_view_of_a_bytearray_may_change() -> None:
    view = np.frombuffer(bytearray(8), np.float32)
    view.flags.writeable = False
    assert not never_changes(view)
