"""Nodes that compute summaries have TensorFlow's tags and values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import ops, summary
from graphmill.errors import InvalidArgumentError
from graphmill.proto.summary_pb2 import Summary


def values(fetch: Any, feeds: dict[Any, Any] | None = None) -> dict[str, Any]:
    with graphmill.Session(graph=fetch.graph) as session:
        message = Summary.FromString(session.run(fetch, feeds))
    return {value.tag: value for value in message.value}


def test_tags_have_the_name_scopes_and_are_unique() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        number = graph.constant(2.0)
        with graph.name_scope("train"):
            first = summary.scalar("loss", number)
            second = summary.scalar("loss", number)
        summary.scalar("a b", number)
        merged = summary.merge_all()
    assert (first.op.name, second.op.name) == ("train/loss", "train/loss_1")
    assert merged is not None
    found = values(merged)
    assert {tag: value.simple_value for tag, value in found.items()} == {
        "train/loss": 2.0,
        "train/loss_1": 2.0,
        "a_b": 2.0,
    }


def test_each_kind_of_summary_is_computed() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        summary.histogram("h", graph.constant([1.0, 2.0, 2.0]))
        summary.image("i", graph.constant(np.zeros((2, 4, 3, 1), np.float32)), max_outputs=1)
        summary.audio("a", graph.constant(np.zeros((1, 10), np.float32)), 8000.0)
        summary.text("t", graph.constant([b"one", b"two"]))
        merged = summary.merge_all()
    assert merged is not None
    found = values(merged)
    assert found["h"].histo.num == 3
    assert (found["i/image"].image.height, found["i/image"].image.width) == (4, 3)
    assert found["a/audio/0"].audio.sample_rate == 8000
    assert found["t"].metadata.plugin_data.plugin_name == "text"
    assert list(found["t"].tensor.string_val) == [b"one", b"two"]


def test_text_takes_strings_only() -> None:
    graph = graphmill.Graph()
    with (
        graph.as_default(),
        pytest.raises(InvalidArgumentError, match="takes strings, but 'x:0' is float32"),
    ):
        summary.text("t", graph.placeholder("float32", [], name="x"))
    assert graph.summaries == []


def test_only_summaries_are_merged() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [])
        ops.math.neg(x)
        assert summary.merge_all() is None
        summary.scalar("x", x)
    merged = summary.merge_all(graph=graph)
    assert merged is not None
    assert values(merged, {x: 1.0})["x"].simple_value == 1.0


def test_nothing_to_merge_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="no summaries to merge"):
        summary.merge([])


def test_two_summaries_of_one_tag_fail_when_they_are_merged() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        one = summary.scalar("x", graph.constant(1.0))
        merged = summary.merge([one, one])
    with (
        graphmill.Session(graph=graph) as session,
        pytest.raises(InvalidArgumentError, match="x"),
    ):
        session.run(merged)


def test_family_and_collections_are_those_of_tensorflow() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        loss = summary.scalar("loss", graph.constant(1.0), family="a b")
        own = summary.scalar("x", graph.constant(2.0), collections=["mine"])
        both = summary.merge([loss, own], collections=["mine"], name="both")
        assert graph.get_collection("mine") == [own, both]
        assert summary.merge_all("absent") is summary.merge_all(scope="absent") is None
        merged = summary.merge_all("mine", "x", name="m")
    assert graph.summaries == [loss]
    assert merged is not None
    assert [loss.name, both.name, merged.name] == ["a_b/loss:0", "both/both:0", "m/m:0"]
    assert list(values(loss)) == ["a_b/a_b/loss"]
    assert list(values(merged)) == ["x"]


def test_graph_as_first_argument_of_merge_all_warns() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        summary.scalar("x", graph.constant(1.0))
    with pytest.warns(DeprecationWarning, match="of merge_all is now 'graph'"):
        merged = summary.merge_all(graph)
    assert list(values(merged)) == ["x"]
