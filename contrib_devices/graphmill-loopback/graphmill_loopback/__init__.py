"""A device of type LOOPBACK: the smallest complete device, to be copied as a starting point."""

from __future__ import annotations

from typing import Any

from graphmill.spi import hookimpl

GRAPHMILL_SPI = ">=1.0,<2"


@hookimpl
def graphmill_register_devices(devices: Any) -> None:
    """Register the device type below CPU, so that nodes run there only on request."""
    devices.add("LOOPBACK", "graphmill_loopback.device:LoopbackFactory", priority=10)
