"""`WorkerInterface`: a task's worker as its master sees it, independent of the protocol.

Semantics: `tensorflow/core/distributed_runtime/worker_interface.h`. Control calls take and return
the protocol's messages; tensors of RunGraph are values, so that they are encoded only once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from graphmill import proto

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.distributed.worker.step_call import StepCall, StepResult
    from graphmill.errors import OpError

    Withdraw = Callable[[], None]
    """Ends a call; its `done` is then called soon, with any outcome."""
    Done = Callable[[Any, OpError | None], None]
    """Takes the response, or the error; once, in any thread, perhaps before the call returns."""
    RunDone = Callable[[StepResult | None, OpError | None], None]


class WorkerInterface(ABC):
    """One task's worker.

    No call blocks or raises: each passes its outcome to `done`, and returns a function that cancels
    it. If a task cannot be reached, the outcome is UnavailableError.

    Threads: any may call anything.
    """

    @abstractmethod
    def get_status(self, request: proto.GetStatusRequest, done: Done) -> Withdraw:
        """Ask for the devices of the task; the outcome is a `GetStatusResponse`."""

    @abstractmethod
    def create_worker_session(
        self, request: proto.CreateWorkerSessionRequest, done: Done
    ) -> Withdraw:
        """Create a session of this master."""

    @abstractmethod
    def delete_worker_session(
        self, request: proto.DeleteWorkerSessionRequest, done: Done
    ) -> Withdraw:
        """Drop a session with its graphs and steps."""

    @abstractmethod
    def register_graph(self, request: proto.RegisterGraphRequest, done: Done) -> Withdraw:
        """Register the task's partition of a graph; the outcome is a `RegisterGraphResponse`."""

    @abstractmethod
    def deregister_graph(self, request: proto.DeregisterGraphRequest, done: Done) -> Withdraw:
        """Deregister a graph."""

    @abstractmethod
    def run_graph(self, session_handle: str, call: StepCall, done: RunDone) -> Withdraw:
        """Run the task's partition of a step; the outcome is a `StepResult`."""

    def logging(self, request: proto.LoggingRequest, done: Done) -> Withdraw:
        """Turn the log of receives on or off, or request it; the outcome is a `LoggingResponse`.

        Without an implementation nothing is logged.
        """
        del self, request
        done(proto.LoggingResponse(), None)
        return _nothing

    @abstractmethod
    def cleanup_graph(self, request: proto.CleanupGraphRequest, done: Done) -> Withdraw:
        """End a step: pending receives of its tensors are aborted."""

    @abstractmethod
    def cleanup_all(self, request: proto.CleanupAllRequest, done: Done) -> Withdraw:
        """Clear resource containers."""


def _nothing() -> None:
    """Do nothing: the call has ended."""
