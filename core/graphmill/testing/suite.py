"""The suites as tests, for `pytest --pyargs graphmill.testing.suite`.

Name what is tested: `--graphmill-device NPU`, `--graphmill-executor MINE`; `--graphmill-levels`
ends the run with the report of what was reached.
"""

from __future__ import annotations

from graphmill.testing import conformance


class TestDevice(conformance.DeviceTests):
    """The device that `--graphmill-device` names."""


class TestKernels(conformance.KernelTests):
    """Its kernels."""


class TestExecutor(conformance.ExecutorTests):
    """The executor that `--graphmill-executor` names."""
