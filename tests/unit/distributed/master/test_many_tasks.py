"""A session on many tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.distributed.master.conftest import run

import graphmill
from graphmill import ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.distributed.master.conftest import Master

NUM_TASKS = 64


def test_a_step_passes_through_64_tasks(new_master: Callable[..., Master]) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        value = graph.placeholder("float32", [], name="x")
        for number in range(NUM_TASKS):
            with graph.device(f"/job:worker/task:{number}"):
                value = ops.math.add_v2(value, 1.0, name=f"n{number}")
    master = new_master(NUM_TASKS)
    session = master.session(graph)
    assert len(session.list_devices()) == NUM_TASKS
    for start in (0.0, 2.0):
        assert run(session, [f"n{NUM_TASKS - 1}:0"], {"x:0": start}) == [start + NUM_TASKS]
    assert [len(worker.requests("run_graph")) for worker in master.workers] == [2] * NUM_TASKS


@pytest.mark.parametrize(
    ("config", "count"),
    [
        ({}, 0),
        ({"share_cluster_devices_in_session": True}, 2),
        ({"experimental": {"share_cluster_devices_in_session": True}}, 2),
    ],
)
def test_tasks_get_all_devices_on_request(
    master: Master, config: dict[str, Any], count: int
) -> None:
    master.session(graphmill.Graph(), **config)
    for worker in master.workers:
        (request,) = worker.requests("create_worker_session")
        assert len(request.cluster_device_attributes) == count
