"""`Dataset.reduce`, `scan` and `get_single_element` without TensorFlow."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import graphmill
from graphmill import errors
from graphmill import functions as F
from graphmill.data import Dataset, TensorSpec


def test_reduce_returns_the_structure_of_the_state() -> None:
    rows = Dataset.from_tensor_slices({"x": [[1.0, 2.0], [3.0, 4.0]], "name": ["a", "b"]})
    result = rows.reduce(
        {"count": 0, "last": (b"", np.zeros(2, np.float32))},
        lambda state, row: {
            "count": state["count"] + 1,
            "last": (row["name"], state["last"][1] + row["x"]),
        },
    )
    assert result["count"] == 2
    assert result["last"][0] == b"b"
    np.testing.assert_array_equal(result["last"][1], [4, 6])


def test_reduce_of_no_elements_is_the_initial_state() -> None:
    assert Dataset.range(0).reduce(np.int64(7), lambda state, x: state + x) == 7


def test_state_may_grow() -> None:
    result = Dataset.range(3).reduce(
        np.zeros(0, np.int64), lambda state, x: F.concat([state, F.reshape(x, [1])], 0)
    )
    assert result.tolist() == [0, 1, 2]


def test_reduce_in_a_graph_is_a_tensor() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        total = Dataset.range(5).reduce(np.int64(0), lambda state, x: state + x)
        count = graph.placeholder("int64", [])
        of_feed = Dataset.range(count).reduce(count, lambda state, x: state + x, name="sum")
    assert of_feed.op.attrs["metadata"] == b"\n\x03sum"
    with graphmill.Session(graph=graph) as session:
        assert session.run([total, of_feed], {count: 4}) == [10, 10]


def test_result_depends_on_a_tensor_without_a_default_graph() -> None:
    graph = graphmill.Graph()
    start = graph.placeholder("int64", [])
    total = Dataset.range(3).reduce(start, lambda state, x: state + x)
    with graphmill.Session(graph=graph) as session:
        assert session.run(total, {start: 10}) == 13


def test_reduce_in_a_function_of_a_step() -> None:
    sums = Dataset.range(4).map(
        lambda n: Dataset.range(n).reduce(np.int64(0), lambda state, x: state + x)
    )
    assert [int(total) for total in sums] == [0, 0, 1, 3]


def test_state_of_another_type_is_refused() -> None:
    with pytest.raises(errors.InvalidValueError, match="the new state is int64, but the initial"):
        Dataset.range(2).reduce(0, lambda state, x: x)
    with pytest.raises(errors.InvalidArgumentError, match="must have the same structure"):
        Dataset.range(2).reduce((0, 1), lambda state, x: state[0])
    with pytest.raises(errors.InvalidValueError, match="holds no tensor"):
        Dataset.range(2).reduce((), lambda state, x: ())
    with pytest.raises(errors.InvalidValueError, match=r"'two words' .* not a valid identifier"):
        Dataset.range(2).reduce(0, lambda state, x: state, name="two words")


def test_scan_returns_results_of_a_state() -> None:
    totals = Dataset.range(5).scan(np.int64(1), lambda s, x: (s + x, {"before": s, "x": x}))
    assert totals.element_spec == {
        "before": TensorSpec([], "int64"),
        "x": TensorSpec([], "int64"),
    }
    assert [int(row["before"]) for row in totals] == [1, 1, 2, 4, 7]
    assert len(totals) == 5


def test_scan_takes_parts_of_a_tuple_as_one_element() -> None:
    pairs = Dataset.range(3).enumerate()
    assert [int(x) for x in pairs.scan(np.int64(0), lambda s, pair: (s + pair[1], s))] == [0, 0, 1]


def test_scan_without_a_pair_is_refused() -> None:
    with pytest.raises(errors.InvalidValueError, match="must return a pair"):
        Dataset.range(2).scan(0, lambda state, x: state)


def test_get_single_element_requires_exactly_one() -> None:
    image, label = Dataset.from_tensors(([1.5, 2.5], "a")).get_single_element()
    assert image.tolist() == [1.5, 2.5]
    assert label == b"a"
    with pytest.raises(errors.InvalidArgumentError, match="empty"):
        Dataset.range(0).get_single_element()
    with pytest.raises(errors.InvalidArgumentError, match="more than one element"):
        Dataset.range(2).get_single_element()


def test_single_element_may_be_a_dataset() -> None:
    window = Dataset.range(5).window(3).take(1).get_single_element()
    gc.collect()
    assert [int(x) for x in window] == [0, 1, 2]
    graph = graphmill.Graph()
    with graph.as_default():
        inner = Dataset.range(5).window(3).take(1).get_single_element()
        total = inner.reduce(np.int64(0), lambda state, x: state + x)
    with graphmill.Session(graph=graph) as session:
        assert session.run(total) == 3
