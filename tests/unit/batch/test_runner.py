"""Rows are converted while the model runs."""

from __future__ import annotations

import os

import pytest

from graphmill.batch.contents import TextLine
from graphmill.batch.row import Row
from graphmill.batch.runner import converter_count


def rows(size: int, count: int, first: int = 0) -> list[Row]:
    """Return rows of `size` bytes of their files."""
    return [
        Row(index, "rows.txt", index + 1, TextLine("1"), size * (index + 1))
        for index in range(first, first + count)
    ]


@pytest.mark.parametrize("count", [1, 32])
@pytest.mark.parametrize("first", [0, 640])
def test_only_large_rows_are_converted_by_several_threads(
    monkeypatch: pytest.MonkeyPatch, count: int, first: int
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert converter_count(rows(3_000, count, first)) == 1
    assert converter_count(rows(30_000, count, first)) == 3
    assert converter_count(rows(0, count, first)) == 1
