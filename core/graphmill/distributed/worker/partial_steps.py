"""`PartialSteps`: steps of a worker that are fed and fetched piece by piece (clause S8).

Semantics: `tensorflow/core/distributed_runtime/partial_run_mgr.cc` and DoPartialRunGraph in
`worker.cc`. The step runs in its own thread; each call feeds, and waits for what it fetches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.runtime.process.fork import fork_safe_lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.distributed.worker.step import WorkerStep
    from graphmill.errors import OpError
    from graphmill.runtime.steps.cancellation import CancellationManager


class PartialStep:
    """A step that is in progress across calls.

    Attributes:
        step: the step.
        cancellation: cancels it.
    """

    def __init__(self, step: WorkerStep, cancellation: CancellationManager) -> None:
        self.step = step
        self.cancellation = cancellation
        self._lock = fork_safe_lock()
        self._has_ended = False
        self._error: OpError | None = None
        self._waiting: list[Callable[[OpError | None], None]] = []

    def ended(self, error: OpError | None) -> None:
        """Record the end of the executors."""
        with self._lock:
            self._has_ended, self._error = True, error
            waiting, self._waiting = self._waiting, []
        for done in waiting:
            done(error)

    def when_ended(self, done: Callable[[OpError | None], None]) -> None:
        """Call `done` with the error of the step, or None, once the executors have ended."""
        with self._lock:
            if not self._has_ended:
                self._waiting.append(done)
                return
        done(self._error)

    @property
    def error(self) -> OpError | None:
        """The error of the step, or None."""
        return self._error


class PartialSteps:
    """The unfinished partial runs of a worker, by step id.

    Threads: `_lock` guards the table.
    """

    def __init__(self) -> None:
        self._lock = fork_safe_lock()
        self._steps: dict[int, PartialStep] = {}

    def __len__(self) -> int:
        return len(self._steps)

    def find_or_create(
        self, step_id: int, create: Callable[[], PartialStep]
    ) -> tuple[PartialStep, bool]:
        """Return the step, and whether it was created by this call.

        Raises:
            OpError: what `create` raises.
        """
        with self._lock:
            step = self._steps.get(step_id)
            if step is not None:
                return step, False
            new_step = self._steps[step_id] = create()
            return new_step, True

    def drop(self, step_id: int) -> PartialStep | None:
        """Remove a step that has ended or was cleaned up; return it, or None if it is unknown."""
        with self._lock:
            return self._steps.pop(step_id, None)
