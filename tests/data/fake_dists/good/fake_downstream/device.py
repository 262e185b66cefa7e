"""A fake accelerator that computes with NumPy."""

from __future__ import annotations

import numpy as np

from graphmill.runtime.devices.device import Device, DeviceAttributes, DeviceFactory


class NpuDevice(Device):
    def namespace(self, backend):
        return np

    def to_device(self, value):
        return np.array(value)

    def to_host(self, value):
        return np.array(value)


class NpuFactory(DeviceFactory):
    def create_devices(self, config, name_prefix):
        return [NpuDevice(DeviceAttributes(f"{name_prefix}/device:NPU:0", "NPU", 1 << 20))]
