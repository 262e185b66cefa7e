"""Let SIGINT cancel the step of an isolated process, and nothing else."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


class StepInterrupts:
    """Handles SIGINT: it raises `KeyboardInterrupt` in a step, and is ignored outside of one.

    The parent sends it to cancel a step, and cannot know whether the step has just ended.
    """

    def __init__(self) -> None:
        self._in_step = False

    def install(self) -> None:
        """Handle SIGINT from now on; call it in the main thread."""
        signal.signal(signal.SIGINT, self._handle)

    @contextmanager
    def step(self) -> Iterator[None]:
        """Let SIGINT end the block."""
        self._in_step = True
        try:
            yield
        finally:
            self._in_step = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._in_step:
            self._in_step = False
            raise KeyboardInterrupt
