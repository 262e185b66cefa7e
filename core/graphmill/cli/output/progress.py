"""Show progress on stderr for work that takes longer than a second."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 1.0
"""Seconds that a stage may take before it is shown."""


@contextmanager
def stage(what: str, *, patience: float = PATIENCE) -> Iterator[None]:
    """Show `what` on stderr if the body runs longer than `patience` seconds.

    A terminal shows a spinner, which disappears at the end. A file or pipe gets one line when the
    patience is over and one when the stage is done. A timer thread starts the display; it ends with
    the stage.
    """
    display = _Display(what)
    timer = threading.Timer(patience, display.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        display.stop()


class _Display:
    """The spinner or the two lines of one stage.

    `_lock` guards `_stopped` and `_status`: the timer thread starts the display, the main thread
    stops it.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._begun = time.perf_counter()
        self._lock = threading.Lock()
        self._stopped = False
        self._status: Any = None

    def start(self) -> None:
        """Show the stage, unless it is over."""
        with self._lock:
            if self._stopped:
                return
            if sys.stderr.isatty():
                from rich.console import Console
                from rich.status import Status

                self._status = Status(f"{self._what} …", console=Console(stderr=True))
                self._status.start()
            else:
                click.echo(f"graphmill: {self._what} …", err=True)
                self._status = False

    def stop(self) -> None:
        """Clear the display, or print how long the stage took."""
        with self._lock:
            self._stopped = True
            if self._status:
                self._status.stop()
            elif self._status is False:
                seconds = time.perf_counter() - self._begun
                click.echo(f"graphmill: {self._what}: done after {seconds:.1f} s", err=True)
