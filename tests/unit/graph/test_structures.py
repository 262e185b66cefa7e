"""Nested structures of tensors are flattened and packed (clause G4)."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.errors import InvalidArgumentError
from graphmill.graph.structures import check_same, flatten, flatten_with_paths, map_leaves, pack


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass(frozen=True)
class State:
    step: Any
    rest: Any
    doubled: Any = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "doubled", self.step * 2)


trees = st.recursive(
    st.integers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.builds(Pair, inner, inner)
    ),
    max_leaves=12,
)


@given(trees)
def test_flatten_and_pack_round_trip(tree: Any) -> None:
    again = pack(tree, flatten(tree))
    assert again == tree
    assert type(again) is type(tree)
    check_same(tree, again, "again", "tree")


@given(trees)
def test_paths_lead_to_the_leaves(tree: Any) -> None:
    for path, leaf in flatten_with_paths(tree, "tree"):
        assert eval(path, {"tree": tree}) is leaf


def test_dicts_go_by_sorted_keys_and_keep_their_order() -> None:
    table = {"b": 1, "a": 2}
    assert flatten(table) == [2, 1]
    assert list(pack(table, [20, 10]).items()) == [("b", 10), ("a", 20)]


def test_kinds_of_dicts_are_preserved() -> None:
    assert isinstance(pack(OrderedDict(a=1), [2]), OrderedDict)
    counts = pack(defaultdict(list, a=1), [2])
    assert counts["a"] == 2
    assert counts.default_factory is list


def test_dataclasses_are_rebuilt_field_by_field() -> None:
    state = State(1, [2, 3])
    assert flatten(state) == [1, 2, 3, 2]
    other = pack(state, [5, 6, 7, 8])
    assert (other.step, other.rest, other.doubled) == (5, [6, 7], 8)
    assert state.step == 1


def test_classes_are_leaves() -> None:
    assert flatten([State, None, "ab"]) == [State, None, "ab"]


def test_leaves_are_mapped_in_their_structure() -> None:
    assert map_leaves(str, [1, (2,), {"a": 3}]) == ["1", ("2",), {"a": "3"}]


@pytest.mark.parametrize(
    ("given_one", "message"),
    [
        ([1, [2]], "new is a list of 2, but old is a list of 3"),
        ((1, [2], {"a": 3}), "new is a tuple of 3, but old is a list of 3"),
        ([1, 2, {"a": 3}], r"new\[1\] is a single value \(int\), but old\[1\] is a list of 1"),
        ([1, [2], {"b": 3}], r"new\[2\] is a dict with keys \['b'\], but old\[2\] is a dict with"),
        ([1, [State(1, 2)], {"a": 3}], r"new\[1\]\[0\] is a State, but old\[1\]\[0\] is a single"),
    ],
)
def test_differences_are_named(given_one: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        check_same([1, [2], {"a": 3}], given_one, "new", "old")


def test_kinds_of_dicts_are_the_same() -> None:
    check_same({"a": 1, "b": 2}, OrderedDict(b=1, a=2), "new", "old")


def test_keys_that_cannot_be_sorted() -> None:
    with pytest.raises(InvalidArgumentError, match="keys of dict cannot be sorted"):
        flatten({1: 2, "a": 3})
