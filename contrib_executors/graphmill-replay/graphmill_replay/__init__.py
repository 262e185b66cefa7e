"""The executor REPLAY: records, replays and permutes schedules, and reports races."""

from __future__ import annotations

from typing import Any

from graphmill.spi import hookimpl

GRAPHMILL_SPI = ">=1.4,<2"


@hookimpl
def graphmill_register_executors(executors: Any) -> None:
    """Register the executor."""
    executors.add("REPLAY", "graphmill_replay.executor:ReplayFactory")
