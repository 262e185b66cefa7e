"""A plugin for a later interface, one of whose names is not there yet."""

from graphmill.spi import TimeMachine

GRAPHMILL_SPI = ">=7.0,<8"

print(TimeMachine)
