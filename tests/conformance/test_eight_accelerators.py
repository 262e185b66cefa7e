"""Eight fake accelerators: transfers between them, and the failure of one."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill import errors, proto
from graphmill.graph.builder import Graph
from graphmill.session.session import Session
from graphmill.testing.fakes import strict_device
from graphmill.testing.fakes.fault_injection import Faults, with_faults
from graphmill.testing.timeouts import within

COUNT = 8


@pytest.fixture
def host(make_host):
    return make_host(strict_device)


@pytest.fixture
def config():
    return proto.ConfigProto(device_count={"BOXED": COUNT, "CPU": 1})


def ring(rounds: int = 2) -> Graph:
    """Return a graph whose value passes all devices, each of which adds its index."""
    graph = Graph()
    with graph.as_default():
        y = graph.placeholder("float32", [2], name="x")
        for step in range(rounds * COUNT):
            with graph.device(f"/device:BOXED:{step % COUNT}"):
                y = y + graph.constant(np.full(2, step % COUNT, np.float32))
        graph.create_op("Identity", [y], name="y")
    return graph


def test_value_is_copied_around_all_devices(host, config) -> None:
    """A value is copied around all eight devices, without a missing copy (clauses P3, R1)."""
    with Session(graph=ring(), host=host, config=config) as session:
        got = session.run("y:0", {"x:0": [0, 1]})
    assert got.tolist() == [56.0, 57.0]


def test_towers_are_summed(host, config) -> None:
    """Results of several devices are summed on one of them (clauses P1, P3, E9)."""
    graph = Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        towers = []
        for index in range(COUNT):
            with graph.device(f"/device:BOXED:{index}"):
                towers.append(x * graph.constant(np.float32(index)))
        with graph.device("/device:CPU:0"):
            total = graph.create_op("AddN", towers, name="total")
    with Session(graph=graph, host=host, config=config) as session:
        assert session.run(graph.outputs_of(total)[0], {x: 2.0}) == 56.0


def test_failing_device_fails_only_the_step(host, config) -> None:
    """A fault of one device fails the step, not the session (clauses E8, E9, S12)."""
    faults = Faults(fail_at="add_5")
    with Session(graph=ring(), host=with_faults(host, "BOXED", faults), config=config) as session:
        with pytest.raises(errors.OpError, match="fallen off the bus") as caught:
            within(lambda: session.run("y:0", {"x:0": [0, 1]}), "a step of eight devices")
        assert caught.value.device.endswith("BOXED:5")
        faults.fail_at = None
        assert session.run("y:0", {"x:0": [0, 1]}).tolist() == [56.0, 57.0]


def test_transfers_that_are_lost_end_the_step(host, config) -> None:
    """A step whose transfer is lost ends by its deadline (clauses R1, S6)."""
    faults = Faults(lose_transfers=True)
    options = proto.RunOptions(timeout_in_ms=500)
    with Session(graph=ring(), host=with_faults(host, "BOXED", faults), config=config) as session:
        with pytest.raises((errors.DeadlineExceededError, errors.InternalError)):
            within(lambda: session.run("y:0", {"x:0": [0, 1]}, options=options), "a lossy step")
        faults.lose_transfers = False
        assert session.run("y:0", {"x:0": [0, 1]}).tolist() == [56.0, 57.0]
