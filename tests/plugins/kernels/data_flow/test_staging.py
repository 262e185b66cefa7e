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
