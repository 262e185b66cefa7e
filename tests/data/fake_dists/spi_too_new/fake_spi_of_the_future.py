"""A plugin for a later interface that imports a name which does not exist yet."""

from graphmill.spi import TimeMachine

GRAPHMILL_SPI = ">=7.0,<8"

print(TimeMachine)
