"""The XLA_CPU device: JAX on the host's processor, for sessions that request it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi import hookimpl

if TYPE_CHECKING:
    from graphmill.spi import DeviceFactory, Registrar


@hookimpl
def graphmill_register_devices(devices: Registrar[DeviceFactory]) -> None:
    """Register the device type, which placement never prefers (TensorFlow's priority)."""
    devices.add("XLA_CPU", "graphmill_plugins.xla_cpu.device:XlaCpuDeviceFactory", priority=50)
