"""`Coordinator`: ends several threads together, and reports the first error among them.

Semantics: tensorflow/python/training/coordinator.py.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from graphmill.errors import DeadlineExceededError, OutOfRangeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Coordinator:
    """Ends several threads together.

        import threading

        coordinator = graphmill.train.Coordinator()

        def work():
            with coordinator.stop_on_exception():
                raise graphmill.errors.OutOfRangeError("the input has ended")

        thread = threading.Thread(target=work)
        thread.start()
        coordinator.join([thread])
        print(coordinator.should_stop())  # True

    Args:
        clean_stop_exception_types: the exceptions that request a stop without being an error; by
            default `OutOfRangeError`, the end of the input.

    Threads: all methods may be called by any thread.
    """

    def __init__(
        self, clean_stop_exception_types: Iterable[type[BaseException]] | None = None
    ) -> None:
        clean = clean_stop_exception_types
        self._clean = (OutOfRangeError,) if clean is None else tuple(clean)
        self._lock = threading.Lock()  # guards what is below, except the event
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._registered: list[threading.Thread] = []
        self._joined = False

    @property
    def joined(self) -> bool:
        """Whether `join` has returned."""
        return self._joined

    def should_stop(self) -> bool:
        """Return whether a stop was requested."""
        return self._stop.is_set()

    def request_stop(self, ex: BaseException | None = None) -> None:
        """Request that the threads end.

        Args:
            ex: why; `join` raises the first one, unless it is a clean stop.
        """
        with self._lock:
            if not self._stop.is_set():
                if ex is not None and not isinstance(ex, self._clean):
                    self._error = ex
                self._stop.set()

    def clear_stop(self) -> None:
        """Forget the request and its error, so that threads can be started again."""
        with self._lock:
            self._error = None
            self._joined = False
            self._registered.clear()
            self._stop.clear()

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Wait until a stop is requested; return false if `timeout` seconds pass before."""
        return self._stop.wait(timeout)

    @contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """Request a stop with the exception that the `with` block raises, and continue after it."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - `join` raises it
            self.request_stop(error)

    def register_thread(self, thread: threading.Thread) -> None:
        """Let `join` wait for a thread."""
        with self._lock:
            self._registered.append(thread)

    def raise_requested_exception(self) -> None:
        """Raise the error with which a stop was requested, if there is one."""
        with self._lock:
            error = self._error
        if error is not None:
            raise error

    def join(
        self,
        threads: Iterable[threading.Thread] | None = None,
        stop_grace_period_secs: float = 120,
        ignore_live_threads: bool = False,
    ) -> None:
        """Wait until the threads have ended.

        Args:
            threads: the threads, besides the registered ones.
            stop_grace_period_secs: how long they may take after a stop was requested, in seconds.
            ignore_live_threads: whether those that have not ended then are no error.

        Raises:
            DeadlineExceededError: threads have not ended in time.
            BaseException: the error with which a stop was requested.
        """
        with self._lock:
            waited = {*self._registered, *(threads or ())}
        while any(thread.is_alive() for thread in waited) and not self._stop.wait(0.1):
            continue
        deadline = time.monotonic() + stop_grace_period_secs
        for thread in waited:
            thread.join(max(deadline - time.monotonic(), 0))
        self._joined = True
        self.raise_requested_exception()
        alive = sorted(thread.name for thread in waited if thread.is_alive())
        if alive and not ignore_live_threads:
            raise DeadlineExceededError(
                f"Coordinator stopped with threads still running: {' '.join(alive)}"
            )
