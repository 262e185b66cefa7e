"""Records whose numbers are parsed in place give the same columns as other records."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from graphmill.errors import CancelledError, InvalidArgumentError
from graphmill.runtime.steps.step_runner import running
from graphmill_plugins.kernels._strings import string_array
from graphmill_plugins.kernels.parsing.csv import decode_csv

TYPES = [np.dtype(np.float32), np.dtype(object), np.dtype(np.int64), np.dtype(np.float32)]
COUNT = 300  # records, enough for numbers to be parsed together


def columns(
    records: list[str], *, missing: str = "", selected: tuple[int, ...] = (), default: Any = 7
) -> list[list[Any]]:
    types = [TYPES[index] for index in selected] if selected else TYPES
    defaults = [np.array([b"none" if t.kind == "O" else default]).astype(t) for t in types]
    decode = decode_csv(types, ",", True, missing, selected)
    found = decode(string_array([record.encode() for record in records]), defaults)
    assert [column.dtype for column in found] == types
    return [column.tolist() for column in found]


def records(last: str = "2.5", first: str = "0.5") -> list[str]:
    return [f"{first},word{i},{-i},1.{i}" for i in range(COUNT - 1)] + [f"4,w,5,{last}"]


def expected(last: float, first: float = 0.5) -> list[list[Any]]:
    numbers = [np.float32(f"1.{i}").item() for i in range(COUNT - 1)]
    return [
        [first] * (COUNT - 1) + [4.0],
        [b"word%d" % i for i in range(COUNT - 1)] + [b"w"],
        [-i for i in range(COUNT - 1)] + [5],
        [*numbers, last],
    ]


@pytest.mark.parametrize(
    ("last", "value"), [("2.5", 2.5), ("25e-1", 2.5), (" 2.5", 2.5), ('"2.5"', 2.5), ("", 7.0)]
)
def test_columns_of_many_records_are_parsed(last: str, value: float) -> None:
    assert columns(records(last)) == expected(value)


def test_a_number_may_stand_for_a_missing_one() -> None:
    assert columns(records(first="-0.125"), missing="-0.125") == expected(2.5, first=7.0)
    assert columns(records("NA"), missing="NA") == expected(7.0)


def test_selected_columns_are_returned() -> None:
    found = columns(records(), selected=(0, 2))
    assert found == [column for i, column in enumerate(expected(2.5)) if i in (0, 2)]


def test_a_field_that_is_no_number_is_named() -> None:
    with pytest.raises(InvalidArgumentError, match=f"Field 3 in record {COUNT - 1} is not a valid"):
        columns(records("2.5.1"))
    with pytest.raises(InvalidArgumentError, match="Field 2 in record 0 is not a valid int64"):
        columns(["1,w,2.0,3", *records()])


def test_a_record_of_another_width_is_named() -> None:
    moved = ["1,w,2", "3,4,w,5,6"]  # as many fields as two records have
    with pytest.raises(InvalidArgumentError, match="Expect 4 fields but have 3 in record 0"):
        columns([*moved, *records()])


@pytest.mark.parametrize("last", ["2.5", '"2.5"', "", "word"])
def test_decoding_ends_when_the_step_is_cancelled(last: str) -> None:
    with running(SimpleNamespace(is_cancelled=True)), pytest.raises(CancelledError):
        columns(records(last))
