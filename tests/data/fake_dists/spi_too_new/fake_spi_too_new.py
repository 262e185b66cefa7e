"""A plugin for a later interface, whose names there are."""

from graphmill.spi import hookimpl

GRAPHMILL_SPI = ">=7.0,<8"


@hookimpl
def graphmill_register_devices(devices):
    devices.add("FUTURE", "fake_spi_too_new:Nothing")
