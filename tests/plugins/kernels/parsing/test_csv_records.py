"""Records that are split together have the fields that each of them has alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels.parsing import _csv_records
from graphmill_plugins.kernels.parsing._csv_records import records_of_one_width
from graphmill_plugins.kernels.parsing.csv import csv_fields

FIELDS = st.sampled_from([b"", b"a", b"12", b'""', b'"a"', b'"a,b"', b'"a""b"', b'""""', b'","'])
MALFORMED = st.text(st.sampled_from('a,"'), max_size=6).map(str.encode)


@st.composite
def records(draw: st.DrawFn) -> list[bytes]:
    """Draw records, in most cases well-formed ones of one width."""
    width = draw(st.integers(1, 3))
    rows = draw(st.lists(st.lists(FIELDS, min_size=width, max_size=width), min_size=1, max_size=12))
    return [*map(b",".join, rows), *draw(st.lists(MALFORMED, max_size=1))]


def fields_of_each(items: list[bytes], columns: list[int]) -> list[list[bytes]] | None:
    try:
        rows = [csv_fields(item, b",", True, columns) for item in items]
    except InvalidArgumentError:
        return None
    return rows if len(set(map(len, rows))) == 1 else None


@settings(deadline=None, max_examples=300)
@given(items=records(), columns=st.sampled_from([[], [0], [1], [0, 2]]))
def test_fields_equal_those_of_each_record(items: list[bytes], columns: list[int]) -> None:
    expected = fields_of_each(items, columns)
    count = len(columns) or len(expected[0] if expected else [b""])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_csv_records, "_MIN_QUOTED", 1)
        found = records_of_one_width(items, b",", True, columns, count)
    if found is not None:
        assert expected is not None
        got = found.fields(range(count))
        assert [list(row) for row in zip(*got.values(), strict=True)] == expected


@pytest.mark.parametrize("field", ['a,"b""c"', 'x,"y,z"', '"",""', "plain,1"])
def test_well_formed_records_are_split_together(field: str) -> None:
    items = [field.encode(), b'"q",1'] * 4
    found = records_of_one_width(items, b",", True, [], 2)
    assert found is not None
    assert [*zip(*found.fields([0, 1]).values(), strict=True)] == [
        tuple(csv_fields(item, b",", True)) for item in items
    ]


@pytest.mark.parametrize(
    "record", ['a"b,1', '"a"b,1', '"a,1', 'a,"', '"a""', "a", 'a,b,"c"', "", '"a\nb",1', '"a\r",1']
)
def test_other_records_are_left_to_the_general_parser(record: str) -> None:
    items = [b'"q",1'] * 8
    assert records_of_one_width([*items, record.encode()], b",", True, [], 2) is None
    assert records_of_one_width([record.encode(), *items], b",", True, [], 2) is None


def test_quoted_numbers_are_parsed_in_place() -> None:
    found = records_of_one_width([b'"1.5","a,b"', b'2,"7"'] * 8, b",", True, [], 2)
    assert found is not None
    (numbers,) = found.decimal_columns([np.dtype(np.float32)] * 1 + [np.dtype(object)]).values()
    assert numbers.tolist() == [1.5, 2.0] * 8
