"""An exception while a device copies a value is a fault of the device, wherever it happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops
from graphmill.plugin.markers import hookimpl
from graphmill.runtime.devices.device import Device, DeviceAttributes, DeviceFactory

if TYPE_CHECKING:
    from collections.abc import Callable

DEVICE = "/job:localhost/replica:0/task:0/device:TOY:0"


class Toy(Device):
    """A device with its own memory, whose copies fail for some values."""

    backends = ("numpy",)

    def __init__(self, attributes: DeviceAttributes, faults: Faults) -> None:
        super().__init__(attributes)
        self.faults = faults

    def namespace(self, backend: str) -> Any:
        return np

    def to_device(self, value: Any) -> Any:
        self.faults.check(self.faults.copy_in, value)
        return np.array(value)

    def to_host(self, value: Any) -> Any:
        self.faults.check(self.faults.copy_out, value)
        return np.array(value)


class Faults:
    """The first element of the vectors whose copies fail, and the error."""

    copy_in = copy_out = 0.0
    error: Callable[[], Exception] = lambda: RuntimeError("the link is down")

    def check(self, first: float, value: Any) -> None:
        if first and np.ndim(value) == 1 and value[0] == first:
            raise type(self).error()


class Plugin:
    """Registers the device."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults

    @hookimpl
    def graphmill_register_devices(self, devices: Any) -> None:
        faults = self.faults

        class Factory(DeviceFactory):
            def create_devices(self, config: Any, name_prefix: str) -> list[Device]:
                return [Toy(DeviceAttributes(f"{name_prefix}/device:TOY:0", "TOY"), faults)]

        devices.add("TOY", Factory)


@pytest.fixture
def graph() -> graphmill.Graph:
    made = graphmill.Graph()
    with made.as_default():
        x = made.placeholder("float32", [2], name="x")
        with made.device("/device:TOY:0"):
            scaled = ops.math.mul(x, made.constant(np.float32([3, 4]), name="k"), name="scaled")
        with made.device("/device:CPU:0"):
            negative = ops.math.neg(scaled, name="negative")
        with made.device("/device:TOY:0"):
            ops.math.exp(negative, name="y")
    return made


@pytest.mark.parametrize("kind", [RuntimeError, ValueError])
@pytest.mark.parametrize(
    ("copy_in", "copy_out", "fetch", "method", "node"),
    [
        pytest.param(3.0, 0.0, "y", "to_device", "k", id="constant"),
        pytest.param(1.0, 0.0, "y", "to_device", None, id="feed"),
        pytest.param(-3.0, 0.0, "y", "to_device", "negative/_recv", id="receive on the device"),
        pytest.param(0.0, 3.0, "y", "to_host", "scaled/_recv", id="receive on the host"),
        pytest.param(0.0, 3.0, "scaled", "to_host", None, id="fetch"),
    ],
)
def test_the_error_names_the_method_and_the_device(
    graph: graphmill.Graph,
    copy_in: float,
    copy_out: float,
    fetch: str,
    method: str,
    node: str | None,
    kind: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    faults = Faults()
    faults.copy_in, faults.copy_out = copy_in, copy_out
    monkeypatch.setattr(Faults, "error", lambda: kind("the link is down"))
    host = graphmill.Host(plugins=[Plugin(faults)])
    with (
        graphmill.Session(graph=graph, host=host, config={"graphmill": {"jit": "off"}}) as session,
        pytest.raises(errors.InternalError) as caught,
    ):
        session.run(f"{fetch}:0", {"x:0": [1.0, 2.0]})
    assert f"test_failed_copies.Toy.{method} of the device {DEVICE} failed" in str(caught.value)
    assert f"{kind.__name__}: the link is down" in str(caught.value)
    assert "the kernel" not in str(caught.value)
    assert caught.value.node == node
    if node != "scaled/_recv":
        assert caught.value.device == DEVICE


@pytest.mark.parametrize(
    ("error", "expected", "message"),
    [
        (lambda: MemoryError("full"), errors.ResourceExhaustedError, "out of memory"),
        (lambda: errors.UnavailableError("asleep"), errors.UnavailableError, "asleep"),
    ],
)
def test_errors_of_a_device_keep_their_kind(
    graph: graphmill.Graph,
    monkeypatch: pytest.MonkeyPatch,
    error: Callable[[], Exception],
    expected: type[errors.OpError],
    message: str,
) -> None:
    faults = Faults()
    faults.copy_in = 1.0
    monkeypatch.setattr(Faults, "error", staticmethod(error))
    host = graphmill.Host(plugins=[Plugin(faults)])
    with (
        graphmill.Session(graph=graph, host=host, config={"graphmill": {"jit": "off"}}) as session,
        pytest.raises(expected, match=message) as caught,
    ):
        session.run("y:0", {"x:0": [1.0, 2.0]})
    assert caught.value.device == DEVICE
