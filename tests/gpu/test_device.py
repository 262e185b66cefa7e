"""A GPU passes the public conformance suite of devices."""

from __future__ import annotations

import pytest

from graphmill.testing.conformance import DeviceTests

pytestmark = [pytest.mark.gpu, pytest.mark.jax]


class TestGpu(DeviceTests):
    device = "/device:GPU:0"
