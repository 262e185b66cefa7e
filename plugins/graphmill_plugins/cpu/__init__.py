"""The CPU device: host memory, NumPy kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.plugin.markers import hookimpl

if TYPE_CHECKING:
    from graphmill.plugin.registrars import Registrar


@hookimpl
def graphmill_register_devices(devices: Registrar) -> None:
    """Register the device type."""
    devices.add("CPU", "graphmill_plugins.cpu.device:CpuDeviceFactory")
