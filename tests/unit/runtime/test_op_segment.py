"""Stateful kernels of a session (row E11)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from graphmill.runtime.op_segment import OpSegment


def test_e11_a_kernel_is_made_once_for_a_node() -> None:
    segment = OpSegment()
    made = segment.find_or_create("a", SimpleNamespace)
    assert segment.find_or_create("a", SimpleNamespace) is made
    assert segment.find_or_create("b", SimpleNamespace) is not made


def test_e11_the_first_of_two_that_are_made_at_once_wins() -> None:
    segment = OpSegment()
    first: list[Any] = []

    def slow() -> Any:
        first.append(segment.find_or_create("a", SimpleNamespace))  # another thread meanwhile
        return SimpleNamespace()

    assert segment.find_or_create("a", slow) is first[0]


def test_e11_a_kernel_that_cannot_be_made_is_not_kept() -> None:
    segment = OpSegment()

    def fail() -> Any:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        segment.find_or_create("a", fail)
    assert segment.find_or_create("a", SimpleNamespace) is not None


def test_e11_all_kernels_are_dropped_at_once() -> None:
    segment = OpSegment()
    made = segment.find_or_create("a", SimpleNamespace)
    segment.clear()
    assert segment.find_or_create("a", SimpleNamespace) is not made
