"""Full garbage collections wait while a large graph is built or lowered."""

from __future__ import annotations

import gc

import pytest

import graphmill
from graphmill.lowering.partitioning.build_executors import PartitionMaker
from graphmill.ops import array
from graphmill.runtime.process.full_collections import NoFullCollections
from graphmill.session import executors_builder


def test_thresholds_are_restored_when_the_last_block_ends() -> None:
    setting, before = NoFullCollections(), gc.get_threshold()
    with setting:
        with setting:
            assert gc.get_threshold()[0] >= before[0]
        within = gc.get_threshold()
    assert gc.get_threshold() == before
    assert within == before or within[2] > before[2]


def test_thresholds_that_the_program_sets_are_kept() -> None:
    setting, before = NoFullCollections(), gc.get_threshold()
    try:
        with setting:
            gc.set_threshold(500, 5, 5)
        assert gc.get_threshold()[0] == 500
    finally:
        gc.set_threshold(*before)


def test_disabled_garbage_collector_stays_disabled() -> None:
    gc.disable()
    try:
        with NoFullCollections():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize("is_large", [False, True])
def test_session_lowers_large_graphs_without_full_collections(is_large, monkeypatch) -> None:
    seen: list[tuple[int, int, int]] = []
    monkeypatch.setattr(executors_builder, "_MIN_LARGE_GRAPH_NODES", 2 if is_large else 100)
    lower = PartitionMaker.for_client_graph

    def note(*args, **options):
        seen.append(gc.get_threshold())
        return lower(*args, **options)

    monkeypatch.setattr(PartitionMaker, "for_client_graph", note)
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [])
        y = array.identity(array.identity(x))
    before = gc.get_threshold()
    with graphmill.Session(graph=graph) as session:
        assert session.run(y, {x: 1}) == 1
    with NoFullCollections():
        expected = gc.get_threshold() if is_large else before
    assert seen[0] == expected
    assert gc.get_threshold() == before
