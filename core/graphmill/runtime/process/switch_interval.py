"""Reduce the GIL switch interval while a background thread is running.

A computing thread releases the GIL only every 5 ms. A thread that imports modules or compiles must
acquire the GIL again after every file access, thousands of times: beside a loop of steps it would
hardly make progress.
"""

from __future__ import annotations

import sys
from typing import Final

from graphmill.runtime.process.effects import SWITCH_INTERVAL
from graphmill.runtime.process.temporary_setting import TemporarySetting

_SECONDS: Final = 0.0001


class LowSwitchInterval(TemporarySetting[float]):
    """A context in which the switch interval (`sys.setswitchinterval`) is low."""

    def __init__(self) -> None:
        super().__init__(
            SWITCH_INTERVAL,
            sys.getswitchinterval,
            sys.setswitchinterval,
            lambda before: min(before, _SECONDS),
        )


LOW_SWITCH_INTERVAL: Final = LowSwitchInterval()
"""The instance of this process, which has only one switch interval."""
