"""Turn SIGTERM and SIGINT into an event that a command waits for."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType


@contextmanager
def stop_signal() -> Iterator[threading.Event]:
    """Give an event that SIGTERM and SIGINT set; a second signal ends the process."""
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        signal.signal(number, _stopper(stop))
    try:
        yield stop
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


def _stopper(stop: threading.Event) -> Callable[[int, FrameType | None], None]:
    def handle(number: int, frame: FrameType | None) -> None:
        del frame
        stop.set()
        signal.signal(number, signal.SIG_DFL)

    return handle
