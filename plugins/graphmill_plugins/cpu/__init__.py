"""The CPU device: host memory, NumPy kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi import hookimpl

if TYPE_CHECKING:
    from graphmill.spi import DeviceFactory, Registrar


@hookimpl
def graphmill_register_devices(devices: Registrar[DeviceFactory]) -> None:
    """Register the device type, with TensorFlow's priority."""
    devices.add("CPU", "graphmill_plugins.cpu.device:CpuDeviceFactory", priority=70)
