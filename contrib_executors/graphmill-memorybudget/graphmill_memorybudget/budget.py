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
        need: bytes that it will take.
        is_measured: whether `need` is what it took before; else it is a guess.
        start: have it started by the thread that drives its step.
        refuse: have it fail there.
    """

    step_id: int
    need: int
    is_measured: bool
    start: Callable[[], None] = field(repr=False)
    refuse: Callable[[], None] = field(repr=False)

    def forget(self) -> None:
        """Let go of both: they hold inputs and this object; no collector is to be waited for."""
        self.start = self.refuse = _nothing


class Budget:
    """Admits kernels while the memory in use stays below a limit.

    Room for what a step is known to hold at most is kept free for the oldest one.

    What a kernel made counts until the array is freed. Whoever waits is let in when enough is. If
    every step waits, nothing will be freed any more: then a kernel whose need is only a guess is
    tried, and if there is none, the one of the youngest step fails.

    Threads: `_lock` guards the lists. Arrays are freed at any point of any thread, also inside of a
    method here, so that only notes the size; whoever has the lock, or can get it, settles.

    Attributes:
        limit: bytes.
        peak: the most that was held at one time.
        num_waits: how often a kernel had to wait.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._held = 0
        self.peak = 0
        self.num_waits = 0
        self._lock = threading.Lock()
        self._freed: deque[tuple[int, int]] = deque()  # step and size
        self._by_step: dict[int, int] = {}
        self._step_peak = 0  # the most that one step held at one time
        self._known: set[int] = set()
        self._waiting: deque[Waiter] = deque()
        self._reserved: dict[Waiter, int] = {}
        self._steps: dict[int, int] = {}  # their parts that run; in the order in which they began
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
        """Replace the estimate of an admitted kernel by its actual memory."""
        with self._lock:
            self._held -= self._reserved.pop(waiter)
            waiter.forget()
            made = sum(self._hold(array, waiter.step_id) for array in _arrays(results))
            actions = self._settle()
        _do(actions)
        return made

    def watch(self, step_id: int, runner: Any) -> None:
        """Have `stall` called when a step has nothing else to do; once, however many wait."""
        with self._lock:
            if step_id in self._checking:
                return
            self._checking.add(step_id)
        runner.post(partial(self._check, step_id, runner))

    def _check(self, step_id: int, runner: Any) -> None:
        if runner.has_posted:  # the executor, or another part of the step, is not at its end
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
        if id(owner) in self._known:
            return 0
        size: int = owner.nbytes
        self._known.add(id(owner))
        weakref.finalize(owner, self._note_freed, id(owner), step_id, size).atexit = False
        of_step = self._by_step[step_id] = self._by_step.get(step_id, 0) + size
        self._step_peak = max(self._step_peak, of_step)
        self._held += size
        self.peak = max(self.peak, self._held)
        return size

    def _note_freed(self, key: int, step_id: int, size: int) -> None:
        self._known.discard(key)
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
        # By when they began: who got the smaller number may well begin later, and has no claim yet.
        oldest = next(iter(self._steps), waiter.step_id)
        if waiter.step_id == oldest:
            return room >= 0
        # The oldest step must be able to end, whatever the others hold: so all of them do in turn.
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
        """Admit waiting kernels that fit now, in order, under the lock; return what to call."""
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
    for action in actions:  # they only post: nothing of a step runs here
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
    """Return how many bytes some values are, for a guess."""
    return sum(int(array.nbytes) for array in _arrays(list(values)))
