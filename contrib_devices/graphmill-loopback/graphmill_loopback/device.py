"""`LoopbackDevice`: computes with NumPy on copies of host values."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphmill.spi import Device, DeviceAttributes, DeviceFactory, errors

MEMORY_LIMIT = 1 << 30  # reported, but not enforced


class LoopbackDevice(Device):
    """A NumPy device with separate memory: transfers in and out are copies."""

    backends = ("numpy",)

    def namespace(self, backend: str) -> Any:
        """Return NumPy, the only backend.

        Raises:
            InvalidArgumentError: another backend is requested.
        """
        if backend != "numpy":
            raise errors.InvalidArgumentError(f"{self.name} runs backend numpy, not {backend!r}")
        return np

    def to_device(self, value: Any) -> Any:
        """Return a copy of a host value."""
        return np.array(value)[()]

    def to_host(self, value: Any) -> Any:
        """Return a copy of a device value."""
        return np.array(value)[()]


class LoopbackFactory(DeviceFactory):
    """Creates `device_count["LOOPBACK"]` devices; none by default."""

    def create_devices(self, config: Any, name_prefix: str) -> list[LoopbackDevice]:
        """Return the devices of a session."""
        names = [
            f"{name_prefix}/device:LOOPBACK:{index}"
            for index in range(config.device_count.get("LOOPBACK", 0))
        ]
        return [LoopbackDevice(DeviceAttributes(name, "LOOPBACK", MEMORY_LIMIT)) for name in names]
