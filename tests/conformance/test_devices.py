"""The built-in devices and allocator pass the public conformance suite."""

from __future__ import annotations

import pytest

from graphmill.runtime.devices.allocator import LimitedAllocator
from graphmill.testing.conformance import AllocatorTests, DeviceTests
from graphmill_plugins._jax import platform_devices
from graphmill_plugins.gpu import device as gpu


class TestCpu(DeviceTests):
    device = "/device:CPU:0"


@pytest.mark.jax
class TestXlaCpu(DeviceTests):
    device = "/device:XLA_CPU:0"


@pytest.mark.jax
class TestGpu(DeviceTests):
    """JAX's CPU devices stand in for GPUs, so that machines without one test the device as well."""

    device = "/device:GPU:0"

    @pytest.fixture(autouse=True)
    def cpus_for_gpus(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(gpu, "may_have_gpu", lambda: True)
        monkeypatch.setattr(gpu, "platform_devices", lambda _: platform_devices("cpu"))


class TestLimitedAllocator(AllocatorTests):
    @pytest.fixture
    def allocator(self):
        return LimitedAllocator("/device:TEST:0", self.limit)
