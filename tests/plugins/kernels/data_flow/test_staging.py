"""Staging areas and barriers wait for room or elements, and can be cancelled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops, proto
from graphmill_plugins.kernels.data_flow._staging import Store

AREA = {"dtypes": ["float32"], "shared_name": "area"}


def const(value: Any) -> Any:
    array = np.float32(value)
    return ops.array.const(value=array, dtype="float32")


def test_an_unstage_waits_for_a_stage_of_its_own_step() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        taken = ops.data_flow.unstage(**AREA)[0]
        with graph.control_dependencies([const(1)]):
            put = ops.data_flow.stage([const(3)], shared_name="area")
    with graphmill.Session(graph=graph) as session:
        assert session.run([taken], targets=[put]) == [3]


def test_a_stage_waits_for_room() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        puts = [
            ops.data_flow.stage([const(value)], capacity=1, shared_name="area") for value in (1, 2)
        ]
        taken = [ops.data_flow.unstage(capacity=1, **AREA)[0] for _ in puts]
    with graphmill.Session(graph=graph) as session:
        assert sorted(session.run(taken, targets=puts)) == [1, 2]


def test_components_need_no_room_for_an_element() -> None:
    """Only complete elements count, and one that becomes complete may exceed the capacity."""
    graph = graphmill.Graph()
    area = {"dtypes": ["float32", "float32"], "capacity": 1, "shared_name": "area"}
    with graph.as_default():
        one, both = (ops.array.const(value=np.int32(v), dtype="int32") for v in ([0], [0, 1]))
        other = ops.array.const(value=np.int32([1]), dtype="int32")
        key = graph.placeholder("int64", [], name="key")
        first = ops.data_flow.map_stage(key, one, [const(1)], **area)
        second = ops.data_flow.map_stage(key, other, [const(2)], **area)
        whole = ops.data_flow.map_stage(key, both, [const(3), const(4)], **area)
        sizes = [ops.data_flow.map_size(**area), ops.data_flow.map_incomplete_size(**area)]
    with graphmill.Session(graph=graph) as session:
        session.run([], {key: 7}, targets=[whole])
        session.run([], {key: 8}, targets=[first])
        assert session.run(sizes) == [1, 1]
        session.run([], {key: 8}, targets=[second])
        assert session.run(sizes) == [2, 0]
        options = proto.RunOptions(timeout_in_ms=30)
        with pytest.raises(errors.DeadlineExceededError, match="room"):
            session.run([], {key: 9}, targets=[whole], options=options)


@pytest.mark.parametrize("what", ["area", "barrier"])
def test_waiters_are_cancelled_with_their_step(what: str) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        if what == "area":
            waits = ops.data_flow.unstage(**AREA)[0]
        else:
            barrier = ops.data_flow.barrier(component_types=["float32"], shapes=[[]])
            one = ops.array.const(value=np.int32(1), dtype="int32")
            waits = ops.data_flow.barrier_take_many(barrier, one, component_types=["float32"])[0]
    with (
        graphmill.Session(graph=graph) as session,
        pytest.raises(errors.DeadlineExceededError),
    ):
        session.run(waits, options=proto.RunOptions(timeout_in_ms=30))


def test_requests_after_a_waiting_one_are_served() -> None:
    store, there, seen = Store(), set(), []

    def wants(key: str) -> None:
        def attempt() -> tuple[Any] | None:
            return (key,) if key in there else None

        store.submit(attempt, seen.append, is_take=True)

    wants("a")
    wants("b")
    there.add("b")
    store.changed()
    assert seen == ["b"]
    there.add("a")
    store.changed()
    assert seen == ["b", "a"]
