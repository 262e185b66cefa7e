"""`Budget`: accounts for the memory of a session's steps and queues waiting kernels."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True, eq=False)
class Waiter:
    """A kernel that waits for memory.

    Attributes:
        step_id: its step.
        need: number of bytes that it is expected to allocate.
        is_measured: whether `need` was measured in an earlier call; otherwise it is a guess.
        start: starts the kernel in the thread that drives its step.
        refuse: fails the kernel in that thread.
    """

    step_id: int
    need: int
    is_measured: bool
    start: Callable[[], None] = field(repr=False)
    refuse: Callable[[], None] = field(repr=False)

    def forget(self) -> None:
        """Drop both callbacks, which form a cycle with this object and keep inputs alive."""
        self.start = self.refuse = _nothing


class Budget:
    """Admits kernels while the memory in use stays below a limit.

    Enough memory for the highest peak of any step so far is reserved for the oldest step.

    The outputs of a kernel count until their arrays are freed. A waiting kernel is admitted when
    enough memory is free. If every step waits, no memory will be freed. Then a kernel whose need is
    only a guess is admitted anyway; if there is none, the kernel of the youngest step fails.

    Threads: `_lock` guards the lists. An array may be freed in any thread at any time, even inside
    a method of this class. Its finalizer therefore only records the size, and admits waiting
    kernels only if it can get the lock without blocking.

    Attributes:
        limit: the budget in bytes.
        peak: the most bytes that were in use at one time.
        num_waits: how often a kernel had to wait.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._held = 0
        self.peak = 0
        self.num_waits = 0
        self._lock = threading.Lock()
        self._freed: deque[tuple[int, int]] = deque()  # pairs of step and size
        self._by_step: dict[int, int] = {}
        self._step_peak = 0  # the most bytes that one step had in use at one time
        self._counted: set[int] = set()
        self._waiting: deque[Waiter] = deque()
        self._reserved: dict[Waiter, int] = {}
        self._steps: dict[int, int] = {}  # number of running partitions, by step; oldest first
        self._stalled: set[int] = set()
        self._checking: set[int] = set()

    @property
    def held(self) -> int:
        """Number of bytes in use."""
        with self._lock:
            self._collect()
            return self._held

    def begin(self, step_id: int) -> None:
        """Record the start of a step or partition."""
        with self._lock:
            self._steps[step_id] = self._steps.get(step_id, 0) + 1

    def end(self, step_id: int) -> None:
        """Record the end of a step or partition."""
        with self._lock:
            self._steps[step_id] -= 1
            if not self._steps[step_id]:
                del self._steps[step_id]
                self._stalled.discard(step_id)
                self._checking.discard(step_id)
            actions = self._settle()
        _do(actions)

    def admit(self, waiter: Waiter) -> bool:
        """Admit a kernel or queue it; return whether it was admitted."""
        with self._lock:
            fits = self._fits(waiter)
            if fits:
                self._reserve(waiter)
            else:
                self._waiting.append(waiter)
                self.num_waits += 1
        return fits

    def withdraw(self, waiter: Waiter) -> bool:
        """Remove a waiting kernel; return False if it is no longer waiting."""
        with self._lock:
            if waiter not in self._waiting:
                return False
            self._waiting.remove(waiter)
            return True

    def finish(self, waiter: Waiter, results: Any) -> int:
        """Replace the estimate of an admitted kernel by its actual memory, and return that."""
        with self._lock:
            self._held -= self._reserved.pop(waiter)
            waiter.forget()
            allocated = sum(self._hold(array, waiter.step_id) for array in _arrays(results))
            actions = self._settle()
        _do(actions)
        return allocated

    def watch(self, step_id: int, runner: Any) -> None:
        """Call `stall` once when a step has nothing else to do."""
        with self._lock:
            if step_id in self._checking:
                return
            self._checking.add(step_id)
        runner.post(partial(self._check, step_id, runner))

    def _check(self, step_id: int, runner: Any) -> None:
        if runner.has_posted:  # the executor, or another partition, still has work
            runner.post(partial(self._check, step_id, runner))
            return
        with self._lock:
            self._checking.discard(step_id)
        self.stall(step_id)

    def stall(self, step_id: int) -> None:
        """Record that all remaining kernels of a step wait for memory."""
        with self._lock:
            if any(waiter.step_id == step_id for waiter in self._waiting):
                self._stalled.add(step_id)
            actions = self._settle()
        _do(actions)

    def _hold(self, array: Any, step_id: int) -> int:
        owner = _owner(array)
        if id(owner) in self._counted:
            return 0
        size: int = owner.nbytes
        self._counted.add(id(owner))
        weakref.finalize(owner, self._note_freed, id(owner), step_id, size).atexit = False
        of_step = self._by_step[step_id] = self._by_step.get(step_id, 0) + size
        self._step_peak = max(self._step_peak, of_step)
        self._held += size
        self.peak = max(self.peak, self._held)
        return size

    def _note_freed(self, key: int, step_id: int, size: int) -> None:
        self._counted.discard(key)
        self._freed.append((step_id, size))
        if self._lock.acquire(blocking=False):
            try:
                actions = self._settle()
            finally:
                self._lock.release()
            _do(actions)

    def _fits(self, waiter: Waiter) -> bool:
        self._collect()
        room = self.limit - self._held - waiter.need
        # The oldest by start, not by id: a step with a smaller id may start later.
        oldest = next(iter(self._steps), waiter.step_id)
        if waiter.step_id == oldest:
            return room >= 0
        # The oldest step must always be able to end. Thus every step ends eventually.
        return room >= max(0, self._step_peak - self._by_step.get(oldest, 0))

    def _collect(self) -> None:
        while self._freed:
            step_id, size = self._freed.popleft()
            self._held -= size
            self._by_step[step_id] -= size
            if not self._by_step[step_id]:
                del self._by_step[step_id]

    def _reserve(self, waiter: Waiter) -> None:
        self._reserved[waiter] = waiter.need
        self._held += waiter.need
        self.peak = max(self.peak, self._held)
        self._stalled.discard(waiter.step_id)

    def _settle(self) -> list[Callable[[], None]]:
        """Admit waiting kernels that fit now, in order, under the lock; return their callbacks."""
        actions: list[Callable[[], None]] = []
        for waiter in list(self._waiting):
            if self._fits(waiter):
                self._waiting.remove(waiter)
                self._reserve(waiter)
                actions.append(waiter.start)
        is_stuck = self._waiting and not (actions or self._reserved)
        if is_stuck and set(self._steps) <= self._stalled:
            actions.append(self._resolve_deadlock())
        return actions

    def _resolve_deadlock(self) -> Callable[[], None]:
        guessed = [waiter for waiter in self._waiting if not waiter.is_measured]
        age = {step_id: age for age, step_id in enumerate(reversed(self._steps))}
        chosen = guessed[0] if guessed else min(self._waiting, key=lambda w: age[w.step_id])
        self._waiting.remove(chosen)
        self._stalled.discard(chosen.step_id)
        if not guessed:
            return chosen.refuse
        self._reserve(chosen)
        return chosen.start


def _nothing() -> None:
    pass


def _do(actions: list[Callable[[], None]]) -> None:
    for action in actions:  # they only post to event loops; no kernel runs here
        action()


def _arrays(results: Any) -> list[Any]:
    if isinstance(results, np.ndarray):
        return [results] if results.ndim else []
    if isinstance(results, (list, tuple)):
        return [array for item in results for array in _arrays(item)]
    return []


def _owner(array: Any) -> Any:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def size_of(values: Any) -> int:
    """Return the total size of some values in bytes."""
    return sum(int(array.nbytes) for array in _arrays(list(values)))
