"""The built-in devices and allocator pass the public conformance suite."""

from __future__ import annotations

import pytest

from graphmill.runtime.devices.allocator import LimitedAllocator
from graphmill.testing.conformance import AllocatorTests, DeviceTests


class TestCpu(DeviceTests):
    device = "/device:CPU:0"


@pytest.mark.jax
class TestXlaCpu(DeviceTests):
    device = "/device:XLA_CPU:0"


class TestLimitedAllocator(AllocatorTests):
    @pytest.fixture
    def allocator(self):
        return LimitedAllocator("/device:TEST:0", self.limit)
