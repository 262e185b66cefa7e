"""Batch parsing of examples supports all encodings."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill import dtypes
from graphmill.errors import DataLossError, InvalidArgumentError
from graphmill.proto.example_pb2 import Example
from graphmill.proto.wire import length_delimited, write_varint
from graphmill_plugins.kernels.parsing import _batch_scan
from graphmill_plugins.kernels.parsing._batch_scan import Scan
from graphmill_plugins.kernels.parsing._entry_headers import Headers
from graphmill_plugins.kernels.parsing.sequence_columns import FeatureListScan

TYPES = {b"f": dtypes.float32, b"i": dtypes.int64, b"s": dtypes.string}


def message(number: int, content: bytes) -> bytes:
    return length_delimited(number, len(content)) + content


def entry(key: bytes, *lists: bytes) -> bytes:
    return message(1, message(1, key) + message(2, b"".join(lists)))


def example(*entries: bytes) -> bytes:
    return message(1, b"".join(entries))


def integers(*values: int) -> bytes:
    return message(3, message(1, b"".join(write_varint(value) for value in values)))


def rows(contents: list[bytes], key: bytes) -> list[list[object]]:
    return column_rows(Headers(tuple(TYPES)), contents, key)


def column_rows(headers: Headers, contents: list[bytes], key: bytes) -> list[list[object]]:
    scan = Scan(headers, [""] * len(contents), "example")
    scan.add_examples(contents)
    found, again = scan.columns([(key, TYPES[key]), (key, TYPES[key])])
    assert found.counts.tolist() == again.counts.tolist()
    bounds = [0, *np.cumsum(found.counts).tolist()]
    return [found.values[first:last].tolist() for first, last in pairwise(bounds)]


_floats = st.lists(st.floats(width=32, allow_nan=False), max_size=40)
_integers = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40)
_strings = st.lists(st.binary(max_size=200), max_size=4)
_examples = st.fixed_dictionaries({}, optional={"f": _floats, "i": _integers, "s": _strings})


_raw_lists = st.one_of(
    st.lists(st.binary(max_size=300), max_size=4).map(lambda texts: b"".join(map(_text, texts))),
    st.binary(max_size=6),  # malformed, most often
    st.just(b"\n\x81\x00a"),  # a size of more bytes than necessary
    st.just(message(2, b"another field")),
)


def _text(text: bytes) -> bytes:
    return message(1, text)


@settings(deadline=None)
@given(st.lists(_raw_lists, min_size=1, max_size=6))
def test_lists_of_strings_parsed_as_one_match_those_parsed_one_by_one(cells):
    together = _batch_scan._strings_of_many(cells)
    try:
        values, counts = _batch_scan._strings(cells)  # too few to be parsed together
    except (DataLossError, IndexError):
        assert together is None
        return
    if together is not None:
        assert together[0].tolist() == values.tolist()
        assert together[1].tolist() == counts.tolist()
        assert together[1].dtype == counts.dtype


def test_many_lists_of_strings_are_parsed_as_one():
    cells = [b"".join(map(_text, [b"", b"a" * n][: n % 3])) for n in range(400)]
    together = _batch_scan._strings_of_many(cells)
    assert together is not None
    assert together[1].tolist() == [n % 3 for n in range(400)]
    scan = Scan(Headers((b"s",)), [""] * 400, "example")
    scan.add_examples([example(entry(b"s", message(1, cell))) for cell in cells])
    (found,) = scan.columns([(b"s", dtypes.string)])
    assert found.values.tolist() == together[0].tolist()


@settings(deadline=None)
@given(st.lists(_examples, max_size=4))
def test_batch_bytes_match_protobuf(batch):
    contents = []
    for given_values in batch:
        built = Example()
        for key, values in given_values.items():
            feature = built.features.feature[key]
            lists = {"f": feature.float_list, "i": feature.int64_list, "s": feature.bytes_list}
            lists[key].value.extend(values)
            lists[key].SetInParent()
        contents.append(built.SerializeToString())
    for key in TYPES:
        assert rows(contents, key) == [values.get(key.decode(), []) for values in batch]


_layout = st.lists(st.sampled_from("fis"), min_size=1, max_size=4, unique=True)


@st.composite
def batches_of_few_layouts(draw):
    """Return batches whose examples have one of two orders of keys, and numbers of one size."""
    orders = draw(st.tuples(_layout, _layout))
    values = {"f": st.floats(width=32, allow_nan=False), "i": st.integers(0, 127)}
    values["s"] = st.binary(min_size=2, max_size=2)
    one = st.sampled_from(orders).flatmap(
        lambda order: st.tuples(*[st.tuples(st.just(key), values[key]) for key in order])
    )
    return draw(st.lists(st.lists(one, min_size=1, max_size=9), min_size=1, max_size=4))


def _list_of(key: str, value: object) -> bytes:
    if key == "f":
        return message(2, message(1, np.float32(value).tobytes()))
    return integers(value) if key == "i" else message(1, message(1, value))


@settings(deadline=None)
@given(batches_of_few_layouts())
def test_batches_with_known_layouts_match_the_values(batches):
    headers = Headers(tuple(TYPES))  # keeps what it learns from one batch for the next one
    for batch in batches:
        contents = [
            example(*[entry(key.encode(), _list_of(key, value)) for key, value in features])
            for features in batch
        ]
        for key in TYPES:
            expected = [[v for k, v in features if k == key.decode()] for features in batch]
            assert column_rows(headers, contents, key) == expected


def floats(*values: float) -> bytes:
    return message(2, message(1, np.array(values, "<f4").tobytes()))


def texts(*values: bytes) -> bytes:
    return message(1, b"".join(message(1, value) for value in values))


@pytest.mark.parametrize("sizes", [(1, 1), (3, 2), (0, 0)])
@pytest.mark.parametrize("limit", [127, 128])
def test_numbers_are_decoded_by_known_layouts(sizes, limit):
    """Examples of two lengths, with their keys in two orders; integers of one byte, or of two."""
    headers = Headers(tuple(TYPES))
    for first in (0, 5, 9):
        contents, expected = [], {b"f": [], b"i": [], b"s": []}
        for row in range(first, first + 6):
            numbers = {
                b"f": [row + 0.5 + i for i in range(sizes[0])],
                b"i": [limit - row % 2 * (limit > 127) - (row if limit == 127 else 0)] * sizes[1],
                b"s": [b"x" * (row % 2), b"y"],
            }
            lists = {b"f": floats(*numbers[b"f"]), b"i": integers(*numbers[b"i"])}
            lists[b"s"] = texts(*numbers[b"s"])
            keys = sorted(lists, reverse=bool(row % 2))
            contents.append(example(*[entry(key, lists[key]) for key in keys]))
            for key, values in numbers.items():
                expected[key].append(values)
        for key in TYPES:
            assert column_rows(headers, contents, key) == expected[key]


def test_a_known_layout_with_another_type_is_refused():
    headers = Headers(tuple(TYPES))
    batch = [example(entry(b"i", floats(1.0)))] * 3
    for _ in range(3):
        with pytest.raises(InvalidArgumentError, match="Data types don't match"):
            column_rows(headers, batch, b"i")


def test_layouts_with_a_key_twice_or_types_that_differ():
    """The last entry of a key counts, and an error names the example with another type."""
    headers = Headers(tuple(TYPES))
    twice = example(entry(b"i", integers(1)), entry(b"i", integers(2)))
    other = example(entry(b"i", floats(1.0)), entry(b"f", floats(2.0)))
    for _ in range(3):
        assert column_rows(headers, [twice] * 4, b"i") == [[2]] * 4
        assert column_rows(headers, [other, twice] * 2, b"f") == [[2.0], []] * 2
        with pytest.raises(InvalidArgumentError, match="Data types don't match"):
            column_rows(headers, [other, twice] * 2, b"i")


def test_a_malformed_list_of_floats_in_a_known_layout_is_refused():
    headers = Headers(tuple(TYPES))
    damaged = example(entry(b"f", message(2, message(1, bytes(5)))))
    for _ in range(3):
        with pytest.raises(InvalidArgumentError, match="Could not parse example"):
            column_rows(headers, [damaged] * 3, b"f")


def test_a_layout_is_not_used_for_an_example_with_another_key():
    headers = Headers(tuple(TYPES))
    first, second = (example(entry(key, integers(7))) for key in (b"i", b"j"))
    for batch, expected in (([first] * 2, [[7], [7]]), ([first, second], [[7], []])):
        for _ in range(2):
            assert column_rows(headers, batch, b"i") == expected
    assert len(headers.layouts) == 1


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(entry(b"i", message(3, b"\x08\x05\x08\x07")), id="not packed"),
        pytest.param(entry(b"i", integers(5), integers(7)), id="two lists"),
        pytest.param(entry(b"i", message(3, message(1, b"\5") + message(1, b"\7"))), id="two runs"),
        pytest.param(entry(b"i", message(2, b""), integers(5, 7)), id="two kinds"),
        pytest.param(entry(b"i", integers(1)) + entry(b"i", integers(5, 7)), id="two entries"),
        pytest.param(
            message(1, message(2, integers(5, 7)) + message(1, b"i")), id="value before key"
        ),
        pytest.param(message(9, b"?") + entry(b"i", integers(5, 7)), id="unknown field"),
    ],
)
def test_alternative_encodings_are_parsed(odd):
    plain = example(entry(b"i", integers(300)))
    assert rows([plain, example(odd), plain], b"i") == [[300], [5, 7], [300]]


def test_an_empty_entry_after_a_full_one_counts():
    content = example(entry(b"i", integers(5)), entry(b"i"))
    assert rows([content, content], b"i") == [[], []]


def test_a_key_of_two_types_in_a_batch_is_refused():
    other = example(entry(b"i", message(2, message(1, bytes(4)))))
    with pytest.raises(InvalidArgumentError, match="Data types don't match"):
        rows([example(entry(b"i", integers(5))), other], b"i")


def test_unrequested_features_are_not_parsed():
    """Features that are not requested are not parsed, as in TensorFlow."""
    content = example(entry(b"other", b"\xff\xff"), entry(b"i", integers(5)))
    assert rows([content], b"i") == [[5]]


@pytest.mark.parametrize("size", [1, 40, 5000])
def test_layout_learned_from_one_batch_is_reused(size):
    """A layout learned from one batch is reused, even if long headers differ in one letter."""
    headers = Headers([b"image/picture/of/b"])
    for values in (range(size), range(size, 0, -1), []):
        written = message(2, message(1, np.array(values, "<f4").tobytes()))
        scan = Scan(headers, [""], "example")
        other = entry(b"image/picture/of/a", message(2, message(1, bytes(4 * len(values)))))
        scan.add_example(0, example(other, entry(b"image/picture/of/b", written)))
        assert scan.column(b"image/picture/of/b", dtypes.float32).values.tolist() == list(values)


@pytest.mark.parametrize("run", [b"\x80", b"\xff" * 10 + b"\x01"])
def test_a_number_that_does_not_end_is_of_its_example(run):
    damaged = example(entry(b"i", message(3, message(1, run))))
    scan = Scan(Headers([b"i"]), ["first: ", "second: "], "example")
    for row, content in enumerate([example(entry(b"i", integers(5))), damaged]):
        scan.add_example(row, content)
    with pytest.raises(InvalidArgumentError, match=r"^second: "):
        scan.column(b"i", dtypes.int64)


def test_an_entry_longer_than_its_example_is_refused():
    whole = example(entry(b"i", integers(5)))
    scan = Scan(Headers([b"i"]), ["", "second: "], "example")
    scan.add_example(0, whole)
    with pytest.raises(InvalidArgumentError, match="second: Could not parse example"):
        scan.add_example(1, message(1, whole[2:-1]))


def steps(contents: list[bytes], key: bytes) -> tuple[list[object], list[int], list[int]]:
    scan = FeatureListScan(TYPES, [""] * len(contents))
    for row, content in enumerate(contents):
        scan.add(row, content, 0, len(content))
    found = scan.column(key, TYPES[key])
    return found.rows.values.tolist(), found.rows.counts.tolist(), found.lengths.tolist()


def test_steps_of_all_kinds_are_read_in_order():
    odd = message(3, b"\x08\x05\x08\x07")  # not packed
    written = [integers(1), integers(300, 2), b"", odd, integers(3)]
    content = entry(b"i", b"".join(message(1, step) for step in written))
    values = [1, 300, 2, 5, 7, 3]
    assert steps([content, content], b"i") == (values * 2, [1, 2, 0, 2, 1] * 2, [5, 5])


def test_entries_after_an_unusual_one_are_read():
    first, last = (entry(b"i", message(1, integers(n))) for n in (1, 3))
    value_before_key = message(1, message(2, message(1, integers(2))) + message(1, b"i"))
    unknown = message(7, b"ignored")
    for unusual in (value_before_key, unknown, entry(b"other", b"")):
        assert steps([first, unusual + last, last + unknown], b"i")[0] == [1, 3, 3]


@pytest.mark.parametrize("size", range(1, 12))
def test_lists_that_are_cut_off_are_refused(size):
    content = entry(b"i", message(1, integers(5)))
    scan = FeatureListScan(TYPES, [""])
    with pytest.raises(DataLossError):
        scan.add(0, content[:size], 0, size)


def test_a_step_of_another_type_is_refused():
    content = entry(b"i", message(1, integers(1)) + message(1, message(2, b"")))
    with pytest.raises(InvalidArgumentError, match="Data types don't match"):
        steps([content], b"i")


def step_lists(*lists: list[bytes], key: bytes = b"i") -> list[bytes]:
    return [entry(key, b"".join(message(1, step) for step in written)) for written in lists]


@pytest.mark.parametrize("last", [integers(7), integers(300), integers(7, 8), b"", texts(b"\x01")])
def test_steps_are_read_whether_or_not_all_have_one_header(last):
    contents = [*step_lists([integers(1), integers(2)], []), b"", *step_lists([last])]
    if last == texts(b"\x01"):
        with pytest.raises(InvalidArgumentError, match="Data types don't match"):
            steps(contents, b"i")
        return
    added = {integers(300): [300], integers(7, 8): [7, 8], b"": []}.get(last, [7])
    assert steps(contents, b"i") == ([1, 2, *added], [1, 1, len(added)], [2, 0, 0, 1])


def test_equal_steps_return_independent_floats():
    contents = step_lists([floats(1.5, 2.0), floats(3.0, 4.0)], [floats(5.0, 6.0)], key=b"f")
    scan = FeatureListScan([b"f"], ["", ""])
    for row, content in enumerate(contents):
        scan.add(row, content, 0, len(content))
    found = scan.column(b"f", dtypes.float32)
    assert found.rows.values.tolist() == [1.5, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert found.rows.count_of_each == 2
    assert found.rows.values.flags.writeable


def test_a_list_that_another_replaces_must_be_valid():
    (valid,) = step_lists([integers(1)])
    broken = entry(b"i", message(1, integers(5))[:-1])
    with pytest.raises(DataLossError):
        steps([broken + valid], b"i")
    with pytest.raises(InvalidArgumentError, match="Could not parse SequenceExample"):
        steps([valid + broken], b"i")
