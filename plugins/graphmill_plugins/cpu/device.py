"""`CpuDevice`: computes with NumPy in host memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import Device, DeviceAttributes, DeviceFactory
from graphmill.spi.process import keep_freed_memory

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value

_MEMORY_LIMIT = 256 << 20  # as TensorFlow reports for its CPU devices; not enforced


class CpuDevice(Device):
    """The host's processor; values are NumPy arrays, so transfers return them unchanged."""

    backends = ("numpy",)
    is_host_memory = True

    def namespace(self, backend: str) -> ArrayNamespace:
        """Return NumPy, the only backend.

        Raises:
            InvalidArgumentError: `backend` is another one.
        """
        if backend != "numpy":
            raise InvalidArgumentError(f"device {self.name} runs backend numpy, not {backend!r}")
        return np

    def to_device(self, value: Value) -> Value:
        """Return the value itself."""
        return value

    def to_host(self, value: Value) -> Value:
        """Return the value itself."""
        return value


class CpuDeviceFactory(DeviceFactory):
    """Makes one CPU device, or `device_count["CPU"]` of them."""

    def create_devices(self, config: Any, name_prefix: str) -> list[CpuDevice]:
        """Return the CPU devices of a session."""
        keep_freed_memory()
        count = config.device_count.get("CPU", 1) if config is not None else 1
        return [
            CpuDevice(DeviceAttributes(f"{name_prefix}/device:CPU:{index}", "CPU", _MEMORY_LIMIT))
            for index in range(count)
        ]
