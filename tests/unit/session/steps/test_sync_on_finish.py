"""A step ends when its devices have finished their work (`sync_on_finish`, clause E8)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops
from graphmill.plugin.markers import hookimpl
from graphmill.runtime.devices.device import Device, DeviceAttributes, DeviceFactory
from graphmill.session.executors_cache import syncs_devices


class Slow(Device):
    """A device with separate memory that counts calls of `sync`."""

    backends = ("numpy",)
    num_syncs = 0
    error: Exception | None = None

    def namespace(self, backend: str) -> Any:
        return np

    def to_device(self, value: Any) -> Any:
        return np.array(value)

    def to_host(self, value: Any) -> Any:
        return value

    def sync(self) -> None:
        self.num_syncs += 1
        if self.error is not None:
            raise self.error


class SlowFactory(DeviceFactory):
    """Creates one device, which the test can find."""

    made: Slow

    def create_devices(self, config: Any, name_prefix: str) -> list[Device]:
        type(self).made = Slow(DeviceAttributes(f"{name_prefix}/device:SLOW:0", "SLOW"))
        return [self.made]


class Plugin:
    """Registers the device, preferred over the CPU."""

    @hookimpl
    def graphmill_register_devices(self, devices: Any) -> None:
        devices.add("SLOW", SlowFactory, priority=300)


@pytest.fixture(params=["", "INLINE"])
def session(request: pytest.FixtureRequest) -> Any:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        ops.math.neg(ops.math.exp(x), name="y")
    host = graphmill.Host(plugins=[Plugin()])
    config = {"experimental": {"executor_type": request.param}}
    with graphmill.Session(graph=graph, host=host, config=config) as made:
        yield made


def test_e8_a_step_waits_for_its_devices_even_without_fetches(session: Any) -> None:
    session.run("y", {"x:0": 0})
    assert SlowFactory.made.num_syncs == 1
    assert session.run("y:0", {"x:0": 0}) == -1
    assert SlowFactory.made.num_syncs == 2
    session.run("y", {"x:0": 0}, options={"trace_level": "FULL_TRACE"})
    assert SlowFactory.made.num_syncs == 3


def test_e8_a_fault_of_work_in_flight_is_an_error_of_the_step(session: Any) -> None:
    SlowFactory.made.error = errors.AbortedError("the device was lost")
    with pytest.raises(errors.AbortedError, match="the device was lost") as caught:
        session.run("y", {"x:0": 0})
    assert caught.value.device.endswith("/device:SLOW:0")
    SlowFactory.made.error = RuntimeError("unplugged")
    with pytest.raises(errors.InternalError, match="RuntimeError: unplugged"):
        session.run("y", {"x:0": 0})


def test_e8_a_partial_run_waits_at_its_end(session: Any) -> None:
    run = session.partial_run_setup(["y:0"], ["x:0"])
    assert SlowFactory.made.num_syncs == 0
    session.partial_run(run, "y:0", {"x:0": 0})
    assert SlowFactory.made.num_syncs == 1


@pytest.mark.parametrize(("text", "count"), [("0", 0), ("false", 0), ("1", 1), ("", 1)])
def test_e8_waiting_can_be_switched_off(
    session: Any, monkeypatch: pytest.MonkeyPatch, text: str, count: int
) -> None:
    monkeypatch.setenv("TF_SYNC_ON_FINISH", text)
    session.run("y", {"x:0": 0})
    assert SlowFactory.made.num_syncs == count


def test_s7_a_callable_may_skip_waiting(session: Any) -> None:
    options = graphmill.proto.CallableOptions(feed=["x:0"], target=["y"], fetch_skip_sync=True)
    call = session._make_callable_from_options(options)
    call(0)
    assert SlowFactory.made.num_syncs == 0
    options.fetch_skip_sync = False
    session._make_callable_from_options(options)(0)
    assert SlowFactory.made.num_syncs == 1


def test_e8_devices_that_compute_at_once_are_not_waited_for() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        graph.constant(1.0, name="c")
    with graphmill.Session(graph=graph) as session:
        assert not session.list_devices()[0].name.endswith("SLOW:0")
        session.run("c:0")
        (executors,) = session._impl.cached_executors()
        assert not executors.syncs_devices
        assert not syncs_devices(executors.items)
