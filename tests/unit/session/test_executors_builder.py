"""`ExecutorsBuilder`: the executors of a signature, and its partitions for the phase `HOT`."""

from __future__ import annotations

import gc
import logging
from typing import TYPE_CHECKING, cast

import pytest

import graphmill
from graphmill import errors, ops
from graphmill.session.executors_builder import collections_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill.session.direct_session import DirectSession

KEY = (("x:0",), ("y:0",), ())


@pytest.fixture
def session() -> Iterator[DirectSession]:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [2], name="x")
        ops.math.neg(x, name="y")
        ops.math.exp(x, name="unneeded")
    with graphmill.Session(graph=graph) as made:
        yield cast("DirectSession", made._impl)


def test_executors_have_the_needed_nodes_of_a_signature(session: DirectSession) -> None:
    executors = session.executors(KEY).executors
    (item,) = executors.items
    names = [node.name for node in item.graph.nodes]
    assert "y" in names
    assert "unneeded" not in names
    assert (executors.feeds, executors.fetches, executors.targets) == KEY
    assert executors.feed_shapes[0] == (2,)


def test_a_partial_run_knows_the_feeds_that_a_fetch_needs(session: DirectSession) -> None:
    executors = session.executors(KEY, is_partial=True).executors
    assert executors.needed_feeds == {"y:0": {"x:0"}}


def test_each_call_returns_new_hot_partitions(session: DirectSession) -> None:
    first, second = session.hot_partitions(KEY), session.hot_partitions(KEY)
    assert [item.device.name for item in first] == [item.device.name for item in second]
    assert first[0].graph is not second[0].graph


def test_an_unknown_name_is_not_found(session: DirectSession) -> None:
    with pytest.raises(errors.NotFoundError, match="'z'"):
        session.hot_partitions(((), ("z:0",), ()))


def test_new_executors_are_logged(session: DirectSession, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="graphmill.executor"):
        session.executors(KEY)
        session.executors(KEY)
    (record,) = [one for one in caplog.records if one.event == "executors created"]  # type: ignore[attr-defined]
    assert record.fields["session"] == session.name  # type: ignore[attr-defined]


@pytest.mark.parametrize(("num_nodes", "is_deferred"), [(9_999, False), (10_000, True)])
def test_full_collections_are_deferred_for_large_graphs(num_nodes: int, is_deferred: bool) -> None:
    before = gc.get_threshold()
    with collections_for(num_nodes):
        assert (gc.get_threshold()[2] > before[2]) is is_deferred
    assert gc.get_threshold() == before
