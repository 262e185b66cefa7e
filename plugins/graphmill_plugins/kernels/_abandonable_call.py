"""Run a long call of a library in a thread that a cancelled step can leave behind."""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from graphmill.spi.kernels import check_cancelled

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")

_INTERVAL: Final = 0.05
"""Seconds between two checks whether the step was cancelled."""


def run_abandonable(compute: Callable[[], _T]) -> _T:
    """Return the result of a call that nothing can stop, unless the step is cancelled before.

    The call has to release the GIL, as those of LAPACK do. After a cancellation it continues in its
    thread until it ends, and its result is dropped; the thread does not keep the process alive.

    Args:
        compute: the call, which must not change anything that others see.

    Raises:
        CancelledError: the step was cancelled.
    """
    outcomes: SimpleQueue[Callable[[], _T]] = SimpleQueue()
    name = "graphmill-library-call"
    threading.Thread(target=_run, args=(compute, outcomes), daemon=True, name=name).start()
    while True:
        try:
            return outcomes.get(timeout=_INTERVAL)()
        except Empty:
            check_cancelled()


def _run(compute: Callable[[], _T], outcomes: SimpleQueue[Callable[[], _T]]) -> None:
    """Compute a result; put a function that returns it, or raises the error."""
    try:
        with np.errstate(all="ignore"):
            result = compute()
    except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
        failure = error

        def fail() -> _T:
            raise failure

        outcomes.put(fail)
    else:
        outcomes.put(lambda: result)
