"""The GPU devices that JAX finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi import hookimpl

if TYPE_CHECKING:
    from graphmill.spi import DeviceFactory, Registrar


@hookimpl
def graphmill_register_devices(devices: Registrar[DeviceFactory]) -> None:
    """Register the device type, which placement prefers to CPUs (TensorFlow's priority)."""
    devices.add("GPU", "graphmill_plugins.gpu.device:GpuDeviceFactory", priority=210)
