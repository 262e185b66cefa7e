"""A plugin for a later interface that imports only existing names."""

from graphmill.spi import hookimpl

GRAPHMILL_SPI = ">=7.0,<8"


@hookimpl
def graphmill_register_devices(devices):
    devices.add("FUTURE", "fake_spi_too_new:Nothing")
