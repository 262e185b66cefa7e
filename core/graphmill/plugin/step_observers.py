"""`StepObservers`: calls the step hooks of all plugins; their faults do not affect steps.

A host without step hooks has no `StepObservers`, so each step only tests for None. If an observer
raises, the exception is logged and recorded with the plugin, and the observer is not called again.
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
    """Describes a step to its observers.

    Attributes:
        step_id: the id of the step, unique in the process.
        session: name of the session that runs it.
        feeds: names of the fed tensors.
        fetches: names of the fetched tensors.
        targets: names of the nodes to run without fetching.
    """

    step_id: int
    session: str
    feeds: Sequence[str]
    fetches: Sequence[str]
    targets: Sequence[str]


@dataclass(frozen=True, slots=True)
class Observer:
    """One plugin's implementation of a step hook; `call` takes the hook's arguments by name."""

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
        """Notify the observers that a step has finished, perhaps with `error`; raises nothing.

        Args:
            step: the object passed to `started`.
            seconds: duration of the step.
            error: the error that the caller of the step will get, or None.
            run_metadata: the collected metadata, if the caller requested it.
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
        except Exception as error:  # noqa: BLE001 - an observer must not fail a step
            self._disable(observer, error)

    def _disable(self, observer: Observer, error: Exception) -> None:
        with self._lock:
            self._started = tuple(other for other in self._started if other is not observer)
            self._finished = tuple(other for other in self._finished if other is not observer)
        observer.record.error = f"step observer switched off: {type(error).__name__}: {error}"
        observer.record.exception = error
        import logging  # imported lazily, to keep start-up fast

        log = logging.getLogger("graphmill.plugin")
        log.error(
            "step observer of %s raised an exception; it is disabled",
            observer.record.owner,
            exc_info=error,
        )
