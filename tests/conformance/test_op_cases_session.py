"""Every op returns TensorFlow's golden results in a session; errors name the node (S6, S12)."""

from __future__ import annotations

import pytest

from graphmill.testing.conformance import KernelTests

pytestmark = pytest.mark.divided


class TestCpuKernels(KernelTests):
    device = "/device:CPU:0"
