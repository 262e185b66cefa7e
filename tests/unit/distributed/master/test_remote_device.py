"""A device of another task has the declarations of a device of its type in this process."""

from __future__ import annotations

import pytest

from graphmill import errors
from graphmill.distributed.master.remote_device import RemoteDevice
from graphmill.runtime.devices.device import DeviceAttributes
from graphmill_plugins.gpu.device import GpuDevice
from graphmill_plugins.xla_cpu.device import XlaCpuDevice

THERE = DeviceAttributes("/job:worker/replica:0/task:1/device:XLA_CPU:0", "XLA_CPU")


class HalfDevice(XlaCpuDevice):
    half_type = "bfloat16"


def test_remote_device_declares_what_its_type_declares() -> None:
    like = HalfDevice.__new__(HalfDevice)
    remote = RemoteDevice(THERE, like)
    for name in ("backends", "is_host_memory", "observes_kernels", "half_type"):
        assert getattr(remote, name) == getattr(like, name)
    assert remote.half_type == "bfloat16"
    assert RemoteDevice(THERE, None).half_type == ""


def test_gpus_compute_in_float16() -> None:
    assert (GpuDevice.half_type, XlaCpuDevice.half_type) == ("float16", "")


def test_remote_device_refuses_to_compute() -> None:
    with pytest.raises(errors.UnimplementedError):
        RemoteDevice(THERE, None).namespace("numpy")
