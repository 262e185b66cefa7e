"""Deliberately broken copies of the LOOPBACK device; `conformance/test_seeded_faults.py` runs them.

Not collected by itself: each class here is meant to fail.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphmill.plugin.host import Host
from graphmill.plugin.markers import hookimpl
from graphmill.runtime.devices.device import DeviceAttributes, DeviceFactory
from graphmill.testing.conformance import DeviceTests


def loopback() -> Any:
    """Return the module of graphmill-loopback's device, which need not be installed."""
    project = Path(__file__).parents[3] / "contrib_devices" / "graphmill-loopback"
    file = project / "graphmill_loopback" / "device.py"
    spec = importlib.util.spec_from_file_location("loopback_device", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


Sound = loopback().LoopbackDevice


class SharesMemory(Sound):
    """Stores the caller's array without a copy."""

    def to_device(self, value):
        return value


class LosesPrecision(Sound):
    """Stores all values in 32 bits."""

    def to_device(self, value):
        value = np.asarray(value)
        return value.astype(np.float32)[()] if value.dtype == np.float64 else np.array(value)[()]


class IgnoresStrides(Sound):
    """Copies memory, ignoring strides."""

    def to_device(self, value):
        value = np.asarray(value)
        flat = np.array(value, order="K").ravel(order="K")
        return flat.reshape(value.shape)[()]


class ReturnsHandles(Sound):
    """Returns values that are not NumPy's."""

    def to_host(self, value):
        return np.asarray(value).tolist()


class ReusesBuffer(Sound):
    """Returns the same memory for each result."""

    def __init__(self, attributes):
        super().__init__(attributes)
        self.buffer = np.zeros(1 << 20, np.uint8)

    def to_host(self, value):
        value = np.asarray(value)
        into = self.buffer[: value.nbytes].view(value.dtype).reshape(value.shape)
        into[...] = value
        return into if into.ndim else into[()]


class HasNoNamespace(Sound):
    """Declares a backend without a namespace."""

    backends = ("imaginary", "numpy")

    def namespace(self, backend):
        return np if backend == "numpy" else object()


class RaisesInSync(Sound):
    """Raises in `sync`."""

    def sync(self):
        raise RuntimeError("the driver does not answer")


class ClosesOnce(Sound):
    """Cannot be closed twice."""

    is_open = True

    def close(self):
        assert self.is_open
        self.is_open = False


class RefusesScalars(Sound):
    """Accepts arrays only, not NumPy scalars."""

    def to_device(self, value):
        if not isinstance(value, np.ndarray):
            raise TypeError("no array")
        return np.array(value)


class LostAfterError(Sound):
    """After a kernel has failed once, the device is lost."""

    is_lost = False

    def compute_of(self, kernel):
        def call(*inputs):
            if self.is_lost:
                raise RuntimeError("the device is lost")
            try:
                return kernel.compute(*inputs)
            except Exception:
                self.is_lost = True
                raise

        return call


def plugin(device_class, incarnation=None):
    class Factory(DeviceFactory):
        def create_devices(self, config, name_prefix):
            more = {} if incarnation is None else {"incarnation": incarnation}
            return [
                device_class(DeviceAttributes(f"{name_prefix}/device:FAULTY:{i}", "FAULTY", **more))
                for i in range(config.device_count.get("FAULTY", 0))
            ]

    class Plugin:
        @hookimpl
        def graphmill_register_devices(self, devices: Any) -> None:
            devices.add("FAULTY", Factory(), priority=1)

    return Plugin()


def suite(base, device_class, **more):
    class Suite(base):
        device = "/device:FAULTY:0"

        @pytest.fixture
        def host(self):
            return Host(plugins=[plugin(device_class, **more)])

    Suite.__name__ = Suite.__qualname__ = (
        f"Test{device_class.__name__}{'WithSettings' if more else ''}"
    )
    return Suite


TestSound = suite(DeviceTests, Sound)
TestSharesMemory = suite(DeviceTests, SharesMemory)
TestLosesPrecision = suite(DeviceTests, LosesPrecision)
TestIgnoresStrides = suite(DeviceTests, IgnoresStrides)
TestReturnsHandles = suite(DeviceTests, ReturnsHandles)
TestReusesBuffer = suite(DeviceTests, ReusesBuffer)
TestHasNoNamespace = suite(DeviceTests, HasNoNamespace)
TestRaisesInSync = suite(DeviceTests, RaisesInSync)
TestClosesOnce = suite(DeviceTests, ClosesOnce)
TestRefusesScalars = suite(DeviceTests, RefusesScalars)
TestLostAfterError = suite(DeviceTests, LostAfterError)
TestReusesIncarnation = suite(DeviceTests, Sound, incarnation=7)
