"""The kernels of a GPU return TensorFlow's golden results."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from graphmill import proto
from graphmill.testing.conformance import KernelTests

pytestmark = [pytest.mark.gpu, pytest.mark.jax]


class TestGpuKernels(KernelTests):
    device = "/device:GPU:0"
    backend = "jax"
    settings: ClassVar[dict[str, Any]] = {"gpu_options": proto.GPUOptions(allow_growth=True)}
