"""Show progress on stderr for work that takes longer than a second."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from graphmill.cli.output.visible_text import say, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

DELAY = 1.0
"""Seconds that a stage may take before it is shown."""
INTERVAL = 10.0
"""Seconds between two queries of the reason for which a stage waits."""


@contextmanager
def stage(
    what: str,
    waits: Callable[[], Iterable[object]] = tuple,
    *,
    delay: float = DELAY,
    interval: float = INTERVAL,
) -> Iterator[None]:
    """Show `what` on stderr if the body runs longer than `delay` seconds.

    A terminal shows a spinner, which disappears at the end. A file or pipe gets one line when the
    delay is over and one when the stage is done or has failed, and a line for each change of what
    the stage waits for. A thread shows all that; it ends with the stage.

    Args:
        what: the stage.
        waits: returns what it waits for now; called in the thread of the display.
        delay: the seconds before it is shown.
        interval: the seconds between two calls of `waits`.
    """
    display = _Display(what, waits)
    has_ended = threading.Event()

    def show() -> None:
        if has_ended.wait(delay):
            return
        display.start()
        while not has_ended.wait(interval):
            display.update()

    thread = threading.Thread(target=show, name="graphmill-progress", daemon=True)
    thread.start()
    outcome = "failed"
    try:
        yield
        outcome = "done"
    finally:
        has_ended.set()
        thread.join()
        display.stop(outcome)


class _Display:
    """The spinner or the lines of one stage.

    `_lock` guards the attributes below it: one thread starts and updates the display, the main
    thread stops it.
    """

    def __init__(self, what: str, waits: Callable[[], Iterable[object]] = tuple) -> None:
        self._what = what
        self._waits = waits
        self._begun = time.perf_counter()
        self._lock = threading.Lock()
        self._stopped = False
        self._status: Any = None
        self._shown: list[str] = []

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
                say(f"graphmill: {self._what} …", err=True)
                self._status = False
        self.update()

    def update(self) -> None:
        """Show what the stage waits for, if that has changed."""
        waits = list(map(str, self._waits()))
        with self._lock:
            if self._stopped or waits == self._shown:
                return
            self._shown = waits
            if self._status:
                from rich.markup import escape

                self._status.update(escape(visible("\n".join([f"{self._what} …", *waits]))))
                return
            for wait in waits:
                say(f"graphmill: {self._what}: {wait}", err=True)

    def stop(self, outcome: str = "done") -> None:
        """Clear the display, or print whether the stage was done, and its duration."""
        with self._lock:
            self._stopped = True
            if self._status:
                self._status.stop()
            elif self._status is False:
                seconds = time.perf_counter() - self._begun
                say(f"graphmill: {self._what}: {outcome} after {seconds:.1f} s", err=True)
