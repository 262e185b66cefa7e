"""A pool of threads that share the work of a kernel, and block instead of spinning while idle.

A kernel splits its work into independent pieces. The caller and the idle helpers take pieces until
none is left, so a helper that the system does not schedule causes no delay. The split does not
depend on which helpers are idle, so neither do the results.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

import numpy as np

from graphmill.spi.kernels import check_cancelled
from graphmill.spi.process import track_forks, watch_forks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Piece = Callable[[], object]

_MAX_THREADS: Final = 8  # threads; more are limited by memory bandwidth


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Job:
    """Pieces of work that several threads process in parallel."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces
        self._next = itertools.count()  # `next` on it is atomic
        self._done: SimpleQueue[BaseException | None] = SimpleQueue()
        self._is_stopped = False  # the pieces that are left are not needed

    def help(self) -> None:
        """Process pieces until none is left, and report the outcome of each."""
        for piece in self._left():
            self._done.put(None if self._is_stopped else _outcome(piece))

    def finish(self) -> None:
        """Process pieces until none is left, wait for the helpers, and raise any error."""
        failure: BaseException | None = None
        helped = len(self._pieces)
        for piece in self._left():
            helped -= 1
            if failure is None:
                failure = _outcome(check_cancelled)
                self._is_stopped = failure is not None
            if not self._is_stopped:
                failure = _outcome(piece) or failure
        for _ in range(helped):
            failure = self._done.get() or failure
        if failure is not None:
            raise failure

    def _left(self) -> Iterator[Piece]:
        pieces = self._pieces
        while (index := next(self._next)) < len(pieces):
            yield pieces[index]


def _outcome(piece: Piece) -> BaseException | None:
    """Run a piece; return its error, which `finish` raises when all pieces are done."""
    try:
        piece()
    except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
        return error
    return None


class _Helper:
    """A thread that helps with one job at a time."""

    def __init__(self, idle: deque[_Helper]) -> None:
        self._idle = idle
        self.inbox: SimpleQueue[_Job] = SimpleQueue()
        threading.Thread(target=self._work, name="graphmill-helper", daemon=True).start()

    def _work(self) -> None:
        np.seterr(all="ignore")  # NumPy's error state belongs to the thread
        while True:
            self.inbox.get().help()
            self._idle.append(self)


class Helpers:
    """The helper threads of this process, started on first use.

    Threads: any thread may call `run` at any time. `_idle` is a deque: append and pop are atomic.

    Attributes:
        processors: how many threads can work at once, the caller's included.
    """

    def __init__(self, processors: int) -> None:
        self.processors = min(processors, _MAX_THREADS)
        self._lock = threading.Lock()
        self._idle: deque[_Helper] | None = None
        self._max_threads: Callable[[], int] = lambda: _MAX_THREADS
        track_forks(self)

    def run(self, pieces: Sequence[Piece]) -> None:
        """Run all pieces and wait for them; raise an error if one failed."""
        idle = self._idle
        if idle is None:
            idle = self._start()
        job = _Job(pieces)
        # The limit changes which thread computes a piece, never the pieces, and so no result.
        for _ in range(min(len(pieces), self._max_threads()) - 1):
            try:
                helper = idle.pop()
            except IndexError:
                break
            helper.inbox.put(job)
        job.finish()

    def _start(self) -> deque[_Helper]:
        from graphmill.spi.process import INTRA_OP  # few graphs need helpers

        self._max_threads = lambda: INTRA_OP.limit or _MAX_THREADS
        watch_forks()
        with self._lock:
            if self._idle is None:
                idle: deque[_Helper] = deque()
                idle.extend(_Helper(idle) for _ in range(self.processors - 1))
                self._idle = idle
            return self._idle

    def after_fork_in_child(self) -> None:
        """Forget the threads, which do not exist in this process."""
        self._lock = threading.Lock()
        self._idle = None


HELPERS: Final = Helpers(_processors())
