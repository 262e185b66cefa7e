"""Suites for those who extend graphmill: inherit, name what is tested, get the tests.

For a device that is called NPU:

    class TestNpuKernels(graphmill.testing.conformance.KernelTests):
        device = "/device:NPU:0"
"""

from graphmill.testing.conformance.kernels import KernelTests

__all__ = ["KernelTests"]
