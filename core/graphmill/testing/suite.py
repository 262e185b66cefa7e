"""The suites as tests, for `pytest --pyargs graphmill.testing.suite`.

Name what is tested: `--graphmill-device NPU`, `--graphmill-executor MINE`, `--graphmill-pass fuse`,
`--graphmill-transport link`; `--graphmill-levels` ends the run with the report of what was reached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from graphmill import proto
from graphmill.graph.device_name import parse_device_name
from graphmill.testing import conformance

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill.plugin.host import Host


class TestDevice(conformance.DeviceTests):
    """The device that `--graphmill-device` names."""


class TestKernels(conformance.KernelTests):
    """Its kernels."""


class TestTiers(conformance.TierTests):
    """What plugins declare, on that device, interpreted and compiled."""


class TestAllocator(conformance.AllocatorTests):
    """The allocator of that device, if it has one of its own."""

    @pytest.fixture
    def allocator(self, graphmill_host: Host, graphmill_device: str) -> Iterator[Any]:
        """Give the allocator of a device that no session owns."""
        wanted = parse_device_name(graphmill_device)
        if wanted.type is None:
            pytest.skip("no device is named: give --graphmill-device")
        config = proto.ConfigProto(device_count={wanted.type: (wanted.id or 0) + 1})
        factory = graphmill_host.devices.get(wanted.type)
        devices = factory.create_devices(config, "/job:localhost/replica:0/task:0")
        found = devices[wanted.id or 0].allocator()
        if found is None or not found.stats().bytes_limit:
            pytest.skip("the device leaves its memory to the array library, or gives no limit")
        self.__dict__["limit"] = found.stats().bytes_limit
        yield found
        for device in devices:
            device.close()


class TestPass(conformance.PassTests):
    """The graph pass that `--graphmill-pass` names."""


class TestTransport(conformance.RendezvousTests):
    """The transport that `--graphmill-transport` names."""


class TestExecutor(conformance.ExecutorTests):
    """The executor that `--graphmill-executor` names."""
