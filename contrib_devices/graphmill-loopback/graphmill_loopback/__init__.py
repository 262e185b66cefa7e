"""A device of type LOOPBACK: the smallest complete one, to be copied."""

from __future__ import annotations

from typing import Any

from graphmill.spi import hookimpl

GRAPHMILL_SPI = ">=1.0,<2"


@hookimpl
def graphmill_register_devices(devices: Any) -> None:
    """Register the device type, after CPUs in preference: nodes go there only if they ask."""
    devices.add("LOOPBACK", "graphmill_loopback.device:LoopbackFactory", priority=10)
