"""Kernels on a JAX device that use host memory, or updates for which JAX has no method.

`tests/gpu` runs all cases on a GPU; these need none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from graphmill import proto
from graphmill.testing.case import load_cases
from graphmill.testing.compare import verdict
from graphmill.testing.runners.device_runner import DeviceRunner

if TYPE_CHECKING:
    from graphmill.plugin.host import Host

pytest.importorskip("jax")
pytestmark = pytest.mark.jax

IDS = (
    "CompositeTensorVariantFromComponents/composite_tensor.0/float32",  # Pack of variants
    "TensorListScatterV2/more_types.0/quint16",
    "TensorMapSize/tensor_map.several maps",
    "TensorArrayConcat/more_types.1/string",
    "ResourceGather/0/string/0",
    "BatchFunction/batch.0/string/0",
    "BatchFunction/batch.0/string/2",
    "ScatterDiv/0/int32",
    "ResourceScatterDiv/types.dtype/int8",
    "ScatterMin/sweep.0/float32/1",
    "ScatterMin/sweep.0/bfloat16/1",
    "ResourceScatterNdAdd/types.T/bool",
)
CASES = {case.id: case for case in load_cases() if case.id in IDS}


@pytest.fixture(scope="module")
def runner(graphmill_host: Host) -> DeviceRunner:
    return DeviceRunner(
        graphmill_host, "/device:XLA_CPU:0", proto.ConfigProto(device_count={"XLA_CPU": 1})
    )


@pytest.mark.parametrize("name", IDS)
def test_kernel_of_a_jax_device_matches_tensorflow(name: str, runner: DeviceRunner) -> None:
    assert not verdict(CASES[name], runner.run, "jax")
