"""Mutexes for critical sections: MutexV2, MutexLock, ConsumeMutexLock.

Semantics: tensorflow/core/kernels/mutex_ops.cc. The lock is a value in the graph: the mutex is held
until the lock is consumed or the step ends. Waiting for it is asynchronous.
"""

from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING, Any, ClassVar

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import ResourceHandle, kernel
from graphmill.spi.process import call_when_dropped, fork_safe_lock
from graphmill_plugins.kernels.state.value import node_key
from graphmill_plugins.kernels.wait_queue import Waiter, WaitQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from graphmill.spi import Cancellation, OpKernelConstruction, OpKernelContext

    Done = Callable[..., None]
    Keep = Callable[["Hold"], None]

_STATE = ("state",)
_numbers = itertools.count()


class Mutex:
    """A fair lock: callers acquire it in the order of their requests.

    Threads: `_lock` guards the other attributes; callbacks run outside it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = fork_safe_lock()
        self._waiters = WaitQueue(self._lock, f"acquiring mutex {name!r}")
        self._is_held = False

    def acquire(self, keep: Keep, done: Done, cancellation: Cancellation | None = None) -> None:
        """Acquire the mutex as soon as it is free, and call `done(lock)`.

        Args:
            keep: stores the `Hold` for the lifetime of the step; called before `done`.
            done: called with the lock, or with an error if the step is cancelled.
            cancellation: the cancellation manager of the step.
        """
        waiting = Waiter(done, keep)
        with self._lock:
            is_free = not self._is_held
            if is_free:
                self._is_held = True
            else:
                self._waiters.join(waiting)
        if is_free:
            self._give(waiting)
        else:
            self._waiters.watch(waiting, cancellation)

    def release(self) -> None:
        """Pass the mutex to the next waiter."""
        with self._lock:
            first = self._waiters.served() if self._waiters.first is not None else None
            self._is_held = first is not None
        if first is not None:
            first.leave()
            self._give(first)

    def _give(self, waiting: Waiter) -> None:
        hold = Hold(self)
        waiting.request(hold)
        waiting.done(MutexLock(hold))


class Hold:
    """A step's ownership of a mutex; it ends when the lock is consumed, or with the step."""

    __slots__ = ("__weakref__", "_finalizer", "_mutex")

    def __init__(self, mutex: Mutex) -> None:
        self._mutex = mutex
        self._finalizer = call_when_dropped(self, mutex.release, at_exit=False)

    def release(self) -> None:
        """Release the mutex; further calls do nothing."""
        if self._finalizer.detach() is not None:
            self._mutex.release()


class MutexLock:
    """A held lock in the graph: a scalar of dtype variant.

    It refers to the hold weakly, because the error of a failed step may keep all values of the
    step alive.
    """

    __slots__ = ("_hold",)

    dtype: ClassVar[np.dtype[Any]] = dtypes.variant.as_numpy_dtype
    shape: ClassVar[tuple[int, ...]] = ()
    ndim: ClassVar[int] = 0
    size: ClassVar[int] = 1

    def __init__(self, hold: Hold) -> None:
        self._hold = weakref.ref(hold)

    def release(self) -> None:
        """Release the mutex, unless it has been released."""
        hold = self._hold()
        if hold is not None:
            hold.release()

    def __repr__(self) -> str:
        return "a lock of a mutex"


@kernel("MutexV2", stateful=True, effects=_STATE)
class MutexKernel:
    """Find or create a node's mutex, and output its handle."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._container, self._name = node_key(construction)

    def __call__(self, ctx: OpKernelContext) -> ResourceHandle:
        """Return the handle."""
        mutex = ctx.resources.lookup_or_create(
            self._container, self._name, Mutex, lambda: Mutex(self._name)
        )
        container = self._container or ctx.resources.default_container
        return ResourceHandle(ctx.device.name, container, self._name, "Mutex", mutex)


@kernel("MutexLock", async_=True, waits=True, effects=_STATE)
def mutex_lock(ctx: OpKernelContext, mutex: Any, done: Done) -> None:
    """Return the lock when the mutex is free."""
    lock: Mutex = mutex.expect(Mutex)
    resources, container = ctx.resources, ctx.step_container

    def keep(hold: Hold) -> None:
        resources.create(container, f"hold_{next(_numbers)}_of_{lock.name}", hold)

    lock.acquire(keep, done, ctx.wait(lambda: f"mutex '{lock.name}', which is locked"))


@kernel("ConsumeMutexLock", stateful=True, effects=_STATE)
def consume_mutex_lock(ctx: OpKernelContext, mutex_lock: Any) -> None:
    """Release the mutex."""
    del ctx
    if not isinstance(mutex_lock, MutexLock):
        raise InvalidArgumentError(f"Expected input to be a mutex lock, got {mutex_lock!r}")
    mutex_lock.release()
