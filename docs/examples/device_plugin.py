"""A device that computes with NumPy in its own memory."""

from __future__ import annotations

import numpy as np

from graphmill.spi import Device, DeviceAttributes, DeviceFactory, hookimpl


class ToyDevice(Device):
    backends = ("numpy",)

    def namespace(self, backend):
        return np

    def to_device(self, value):
        return np.array(value)

    def to_host(self, value):
        return np.array(value)


class ToyFactory(DeviceFactory):
    def create_devices(self, config, name_prefix):
        count = config.device_count.get("TOY", 1)
        names = [f"{name_prefix}/device:TOY:{index}" for index in range(count)]
        return [ToyDevice(DeviceAttributes(name, "TOY", memory_limit=1 << 30)) for name in names]


@hookimpl
def graphmill_register_devices(devices):
    devices.add("TOY", ToyFactory)
