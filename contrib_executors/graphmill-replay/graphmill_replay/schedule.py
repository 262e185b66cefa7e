"""`Scheduler`: picks the next ready kernel of a step."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from graphmill.spi import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Key = tuple[str, str]


class Scheduler:
    """Serializes one step: starts one ready kernel at a time.

    Each pick is posted to the step's event loop, so it runs after the executor has announced all
    kernels that are ready. The order therefore depends only on the picks.

    Attributes:
        order: node and iteration of each started kernel.
    """

    def __init__(self, schedule: Sequence[Key] | None = None, seed: int | None = None) -> None:
        self.order: list[Key] = []
        self._schedule = schedule
        self._random = None if seed is None else random.Random(seed)
        self._ready: list[tuple[Key, Callable[[], None], Callable[..., None]]] = []
        self._is_posted = False

    def announce(
        self, key: Key, runner: Any, start: Callable[[], None], done: Callable[..., None]
    ) -> None:
        """Add a ready kernel, to be started in schedule order."""
        self._ready.append((key, start, done))
        if not self._is_posted:
            self._is_posted = True
            runner.post(lambda: self._pick(runner))

    def _pick(self, runner: Any) -> None:
        if runner.has_posted:  # the executor, or another partition, may announce more
            runner.post(lambda: self._pick(runner))
            return
        self._is_posted = False
        if not self._ready:
            return
        index = self._index()
        if index is None:
            self._refuse(runner)
            return
        key, start, _ = self._ready.pop(index)
        self.order.append(key)
        start()  # announces the kernels that become ready, before the next pick
        if self._ready and not self._is_posted:
            self._is_posted = True
            runner.post(lambda: self._pick(runner))

    def _index(self) -> int | None:
        if self._schedule is not None:
            position = len(self.order)
            expected = self._schedule[position] if position < len(self._schedule) else None
            return next((i for i, entry in enumerate(self._ready) if entry[0] == expected), None)
        return 0 if self._random is None else self._random.randrange(len(self._ready))

    def _refuse(self, runner: Any) -> None:
        """Fail all ready kernels: the recorded order does not match this step."""
        position = len(self.order)
        recorded = self._schedule or ()
        expected = recorded[position] if position < len(recorded) else None
        ready = ", ".join("/".join(filter(None, key)) for key, _, _ in self._ready[:5])
        text = (
            f"the recorded schedule does not fit this step: kernel {position} of the recording is "
            f"{expected[0] if expected else 'missing (the recording ends)'}, but the ready kernels "
            f"are {ready}. Record the step again: its graph, feeds or fetches have changed"
        )
        for _, _, done in self._ready:
            done(error=errors.FailedPreconditionError(text))
        self._ready.clear()
        del runner
