"""A node rebuilds its columns only if keys or default values have changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphmill.errors import InvalidArgumentError
from graphmill.proto.example_pb2 import SequenceExample
from graphmill_plugins.kernels._strings import string_array
from graphmill_plugins.kernels.parsing.sequence import parse_sequence_example_v2

NONE = string_array([])


def example() -> Any:
    message = SequenceExample()
    for key, number in (("a", 1), ("b", 2)):
        message.context.feature[key].int64_list.value.append(number)
        steps = message.feature_lists.feature_list[key].feature
        steps.add().int64_list.value.append(10 * number)
    return string_array([message.SerializeToString()])


@pytest.fixture
def parse() -> Any:
    int64 = [np.dtype(np.int64)]
    return parse_sequence_example_v2(
        Tcontext_dense=int64,
        context_sparse_types=[],
        context_ragged_value_types=[],
        context_ragged_split_types=[],
        context_dense_shapes=[()],
        feature_list_dense_types=int64,
        feature_list_sparse_types=[],
        feature_list_ragged_value_types=[],
        feature_list_ragged_split_types=[],
        feature_list_dense_shapes=[()],
        Ncontext_sparse=0,
        Nfeature_list_sparse=0,
        Nfeature_list_dense=1,
    )


def values(parse: Any, context: bytes, lists: bytes, default: int) -> tuple[int, int]:
    keys = [NONE, string_array([context]), NONE, NONE, string_array([lists]), NONE]
    parsed = parse(example(), NONE, *keys, np.array([False]), [np.array(default)])
    return parsed[3][0].item(), parsed[9][0].item()


def test_the_columns_follow_keys_and_defaults(parse: Any) -> None:
    assert values(parse, b"a", b"b", 7) == (1, 20)
    assert values(parse, b"b", b"b", 7) == (2, 20)
    assert values(parse, b"b", b"a", 7) == (2, 10)
    assert values(parse, b"absent", b"a", 7) == (7, 10)
    assert values(parse, b"absent", b"a", 8) == (8, 10)


def test_keys_are_checked_each_time(parse: Any) -> None:
    for _ in range(2):
        assert values(parse, b"a", b"a", 7) == (1, 10)
        with pytest.raises(InvalidArgumentError, match="is required but could not be found"):
            values(parse, b"a", b"absent", 7)
