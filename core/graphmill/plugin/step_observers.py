"""`StepObservers`: the step hooks of all plugins, ready to be called; they never hurt a step.

A host has none unless a plugin implements a step hook, so a step without observers pays for one
test of None. An observer that raises is logged, noted in its plugin's record, and not called again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphmill.runtime.process.fork import fork_safe_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.errors import OpError
    from graphmill.plugin.records import PluginRecord
    from graphmill.proto.config_pb2 import RunMetadata


@dataclass(frozen=True, slots=True)
class StepInfo:
    """What an observer learns about a step.

    Attributes:
        step_id: the number of the step, unique in the process.
        session: name of the session that runs it.
        feeds: names of the tensors fed.
        fetches: names of the tensors fetched.
        targets: names of the nodes that are run for their effect.
    """

    step_id: int
    session: str
    feeds: Sequence[str]
    fetches: Sequence[str]
    targets: Sequence[str]


@dataclass(frozen=True, slots=True)
class Observer:
    """One plugin's implementation of a step hook: a function of the hook's arguments by name."""

    record: PluginRecord
    call: Callable[[dict[str, object]], object]


class StepObservers:
    """Call the step hooks of all plugins.

    Threads: any thread may call `started` and `finished`, and steps overlap, so observers run
    concurrently. `_lock` guards the removal of an observer; the tuples are replaced, never changed.
    """

    __slots__ = ("_finished", "_lock", "_started")

    def __init__(self, started: Sequence[Observer], finished: Sequence[Observer]) -> None:
        self._lock = fork_safe_lock()
        self._started = tuple(started)
        self._finished = tuple(finished)

    def started(self, step: StepInfo) -> None:
        """Notify the observers that a step begins; raises nothing."""
        for observer in self._started:
            self._notify(observer, {"step": step})

    def finished(
        self,
        step: StepInfo,
        seconds: float,
        error: OpError | None = None,
        run_metadata: RunMetadata | None = None,
    ) -> None:
        """Notify the observers that a step has ended, well or with `error`; raises nothing.

        Args:
            step: the object that `started` was given.
            seconds: how long the step took.
            error: what the caller of the step is about to see, or None.
            run_metadata: what was collected, if the caller asked for any.
        """
        for observer in self._finished:
            arguments = {
                "step": step,
                "seconds": seconds,
                "error": error,
                "run_metadata": run_metadata,
            }
            self._notify(observer, arguments)

    def _notify(self, observer: Observer, arguments: dict[str, object]) -> None:
        try:
            observer.call(arguments)
        except Exception as error:  # noqa: BLE001 - an observer never hurts a step
            self._disable(observer, error)

    def _disable(self, observer: Observer, error: Exception) -> None:
        with self._lock:
            self._started = tuple(other for other in self._started if other is not observer)
            self._finished = tuple(other for other in self._finished if other is not observer)
        observer.record.error = f"step observer switched off: {type(error).__name__}: {error}"
        observer.record.exception = error
        import logging  # here: a session should not wait for the module

        log = logging.getLogger("graphmill.plugin")
        log.error(
            "step observer of %s raised an exception; it is disabled",
            observer.record.owner,
            exc_info=error,
        )
