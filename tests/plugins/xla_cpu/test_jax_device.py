"""`JaxDevice`: steps wait for its results, and arrays are copied to it (clauses E8, R1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops, proto

if TYPE_CHECKING:
    from graphmill_plugins._jax import JaxDevice

pytestmark = pytest.mark.jax
pytest.importorskip("jax")


@pytest.fixture
def device() -> JaxDevice:
    from graphmill_plugins.xla_cpu.device import XlaCpuDeviceFactory

    config = proto.ConfigProto(device_count={"XLA_CPU": 1})
    (made,) = XlaCpuDeviceFactory().create_devices(config, "/job:localhost/replica:0/task:0")
    return made


class Result:
    """A computed array, which notes that it was waited for."""

    def __init__(self, error: Exception | None = None, *, is_deleted: bool = False) -> None:
        self.num_waits = 0
        self._error = error
        self._is_deleted = is_deleted

    def is_deleted(self) -> bool:
        return self._is_deleted

    def block_until_ready(self) -> None:
        assert not self._is_deleted
        self.num_waits += 1
        if self._error is not None:
            raise self._error


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, device: JaxDevice) -> Any:
    monkeypatch.setattr(device.started, "_type", Result)
    return device.started


def test_sync_waits_once_for_each_result_e8(device: JaxDevice, started: Any) -> None:
    one, two, three = Result(), Result(), Result()
    started.add(one)
    started.add((two, np.ones(2), None))
    started.add([three])
    device.sync()
    device.sync()
    assert [one.num_waits, two.num_waits, three.num_waits] == [1, 1, 1]


def test_sync_skips_donated_and_released_results_e8(device: JaxDevice, started: Any) -> None:
    donated = Result(is_deleted=True)
    started.add(donated)
    started.add(Result(ValueError("nobody asked for it")))
    device.sync()
    assert donated.num_waits == 0


def test_sync_waits_for_all_before_it_raises_e8(device: JaxDevice, started: Any) -> None:
    import jax

    bad = Result(jax.errors.JaxRuntimeError("the first fault"))
    good, worse = Result(), Result(jax.errors.JaxRuntimeError("the second fault"))
    started.add((bad, good, worse))
    with pytest.raises(jax.errors.JaxRuntimeError, match="the first fault"):
        device.sync()
    assert [good.num_waits, worse.num_waits] == [1, 1]
    device.sync()  # the fault was reported


@pytest.mark.parametrize("jit", ["off", "eager"])
def test_results_of_kernels_and_programs_are_waited_for_e8(
    monkeypatch: pytest.MonkeyPatch, jit: str
) -> None:
    import jax

    from graphmill_plugins import _jax

    added: list[Any] = []
    add = _jax._StartedResults.add

    def noting(self: Any, result: Any) -> None:
        added.extend(result if isinstance(result, (list, tuple)) else [result])
        add(self, result)

    monkeypatch.setattr(_jax._StartedResults, "add", noting)
    graph = graphmill.Graph()
    with graph.as_default(), graph.device("/device:XLA_CPU:0"):
        x = graph.placeholder("float32", [3], name="x")
        ops.math.exp(ops.math.neg(x), name="y")
    config = {"device_count": {"XLA_CPU": 1}, "graphmill": {"jit": jit}}
    with graphmill.Session(graph=graph, config=config) as session:
        got = session.run("y:0", {x: np.zeros(3, np.float32)})
    assert got.tolist() == [1, 1, 1]
    assert [array.tolist() for array in added if isinstance(array, jax.Array)][-1] == [1, 1, 1]


@pytest.mark.parametrize("value", [np.int64(2**40), np.arange(6.0).reshape(2, 3), np.ones((0, 2))])
def test_frequent_arrays_are_copied_by_a_compiled_program_r1(device: JaxDevice, value: Any) -> None:
    for turn in range(20):
        source = np.array(value)
        copied = device.to_device(source)
        source.fill(-1)  # the copy is the device's own
        got = device.to_host(copied)
        assert got.dtype == value.dtype, turn
        np.testing.assert_array_equal(got, value)
        assert copied.committed
        assert copied.devices() == {device.jax_device}


def test_number_of_shapes_with_a_program_is_bounded_r1(
    monkeypatch: pytest.MonkeyPatch, device: JaxDevice
) -> None:
    uploads = device._uploads
    monkeypatch.setattr(type(uploads), "_MAX_SHAPES", 2)
    for size in (1, 2, 3):
        for _ in range(10):
            assert device.to_device(np.ones(size)).shape == (size,)
    assert [shape for shape, _ in uploads._programs] == [(1,), (2,)]


def test_a_fault_in_flight_is_an_error_of_the_step_e8(monkeypatch: pytest.MonkeyPatch) -> None:
    import jax

    from graphmill_plugins._jax import JaxDevice

    def broken(self: Any) -> None:
        raise jax.errors.JaxRuntimeError("the driver lost the device")

    graph = graphmill.Graph()
    with graph.as_default(), graph.device("/device:XLA_CPU:0"):
        ops.math.neg(graph.placeholder("float32", [], name="x"), name="y")
    config = {"device_count": {"XLA_CPU": 1}}
    with graphmill.Session(graph=graph, config=config) as session:
        monkeypatch.setattr(JaxDevice, "sync", broken)
        with pytest.raises(errors.InternalError, match="lost the device") as caught:
            session.run("y:0", {"x:0": 1})
    assert caught.value.device is not None
    assert "XLA_CPU:0" in caught.value.device
