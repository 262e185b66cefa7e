"""Functions of pipelines and loops on a device with separate memory (clause P2)."""

from __future__ import annotations

import pytest

import graphmill
from graphmill.testing.case_graph import GraphMaker
from graphmill.testing.case_nodes import parse_function, parse_node
from graphmill.testing.fakes import strict_device

INT = "output_types=[int64], output_shapes=[[]]"
THREE = "c = Const(value='int64: 3', dtype=int64)"
BOUNDS = "a = Const(value='int64: 0', dtype=int64); b = Const(value='int64: 1', dtype=int64)"
FUNCTIONS = (
    "twice(x: int64) -> (int64): y = AddV2(x, x); return y",
    "more(x: int64, y: int64) -> (int64): z = AddV2(x, y); return z",
    f"large(x: int64) -> (bool): {THREE}; y = Greater(x, c); return y",
    f"small(x: int64) -> (bool): {THREE}; y = Less(x, c); return y",
    f"upto(x: int64) -> (variant): {BOUNDS}; y = RangeDataset(a, x, b, {INT}); return y",
    "add(i: int32, x: int32) -> (int32): y = AddV2(x, i); return y",
    "running(s: int64, x: int64) -> (int64, int64): y = AddV2(s, x); return y, y",
)
PIPELINES = {
    "MapDataset(r, [], f=twice, {INT})": [0, 2, 4, 6],
    "MapDataset(r, [b], f=more, {INT})": [4, 5, 6, 7],
    "ParallelMapDatasetV2(r, [], b, f=twice, {INT})": [0, 2, 4, 6],
    "FilterDataset(t, [], predicate=large, {INT})": [4, 6],
    "FlatMapDataset(r, [], f=upto, {INT})": [0, 0, 1, 0, 1, 2],
    "ScanDataset(r, [a], [], f=running, {INT})": [0, 1, 3, 6],
    "TakeWhileDataset(t, [], predicate=small, {INT})": [0, 2],
}


@pytest.fixture
def host() -> graphmill.Host:
    return graphmill.Host(plugins=[strict_device])


def maker(host: graphmill.Host, *nodes: str) -> GraphMaker:
    made = GraphMaker(host.ops, "/device:BOXED:0")
    for text in FUNCTIONS:
        made.function(parse_function(text))
    for node in nodes:
        made.node(parse_node(node))
    return made


def session_of(made: GraphMaker, host: graphmill.Host) -> graphmill.Session:
    config = {"device_count": {"BOXED": 1}}
    return graphmill.Session(graph=made.graph_def, host=host, config=config)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_elements_are_in_host_memory_and_functions_on_the_device(
    pipeline: str, host: graphmill.Host
) -> None:
    made = maker(
        host,
        "a = Const(value='int64: 0', dtype=int64)",
        "b = Const(value='int64: 4', dtype=int64)",
        "c = Const(value='int64: 1', dtype=int64)",
        f"r = RangeDataset(a, b, c, {INT})",
        f"t = MapDataset(r, [], f=twice, {INT})",
        "d = " + pipeline.replace("{INT}", INT),
        f"it = IteratorV2(shared_name='', container='', {INT})",
        "start = MakeIterator(d, it)",
        f"next = IteratorGetNext(it, {INT})",
        "y = AddV2(next, next)",
    )
    with session_of(made, host) as session:
        session.run("start")
        found = [session.run("y:0") // 2 for _ in PIPELINES[pipeline]]
        with pytest.raises(graphmill.errors.OutOfRangeError):
            session.run("y:0")
    assert found == PIPELINES[pipeline]


def test_the_counter_of_a_for_loop_is_on_the_device(host: graphmill.Host) -> None:
    made = maker(
        host,
        "a = Const(value='int32: 0', dtype=int32)",
        "b = Const(value='int32: 5', dtype=int32)",
        "c = Const(value='int32: 1', dtype=int32)",
        "y = For(a, b, c, [c], body=add)",
    )
    with session_of(made, host) as session:
        assert session.run("y:0") == 11
