"""Plugin declarations hold in every tier, on built-in devices and a strict one."""

from __future__ import annotations

import pytest

from graphmill.testing.conformance import TierTests
from graphmill.testing.fakes import strict_device

pytestmark = pytest.mark.divided


class TestCpu(TierTests):
    device = "/device:CPU:0"


@pytest.mark.jax
class TestXlaCpu(TierTests):
    device = "/device:XLA_CPU:0"


class TestBoxed(TierTests):
    """A device with separate memory, on which a missing copy is an error."""

    device = "/device:BOXED:0"
    backend = "boxed"

    @pytest.fixture
    def plugins(self) -> list[object]:
        return [strict_device]
