"""Conformance suites for plugins: inherit from a suite and name the object under test.

For a device of type NPU:

    from graphmill.testing.conformance import DeviceTests, KernelTests

    class TestNpu(DeviceTests):
        device = "/device:NPU:0"

    class TestNpuKernels(KernelTests):
        device = "/device:NPU:0"

Or without any code: `pytest --pyargs graphmill.testing.suite --graphmill-device NPU`.
"""

from graphmill.testing.conformance.allocator import AllocatorTests
from graphmill.testing.conformance.device import DeviceTests
from graphmill.testing.conformance.executor import ExecutorTests
from graphmill.testing.conformance.kernels import KernelTests
from graphmill.testing.conformance.passes import PassTests
from graphmill.testing.conformance.plugins import PluginTests
from graphmill.testing.conformance.rendezvous import RendezvousTests
from graphmill.testing.conformance.tiers import TierTests

__all__ = [
    "AllocatorTests",
    "DeviceTests",
    "ExecutorTests",
    "KernelTests",
    "PassTests",
    "PluginTests",
    "RendezvousTests",
    "TierTests",
]
