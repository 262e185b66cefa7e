"""`WorkerInterface`: a task's worker as its master sees it, whatever the protocol.

Semantics: `tensorflow/core/distributed_runtime/worker_interface.h`. Control calls take and give the
protocol's messages; tensors of RunGraph are values, so that whoever carries them encodes them once.
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

    No call waits or raises: each gives its outcome to `done` and returns what withdraws it. A task
    that cannot be reached gives UnavailableError.

    Threads: any may call anything.
    """

    @abstractmethod
    def get_status(self, request: proto.GetStatusRequest, done: Done) -> Withdraw:
        """Ask for the devices of the task; gives a `GetStatusResponse`."""

    @abstractmethod
    def create_worker_session(
        self, request: proto.CreateWorkerSessionRequest, done: Done
    ) -> Withdraw:
        """Begin a session of this master."""

    @abstractmethod
    def delete_worker_session(
        self, request: proto.DeleteWorkerSessionRequest, done: Done
    ) -> Withdraw:
        """Drop a session with its graphs and steps."""

    @abstractmethod
    def register_graph(self, request: proto.RegisterGraphRequest, done: Done) -> Withdraw:
        """Make the task's part of a graph ready to run; gives a `RegisterGraphResponse`."""

    @abstractmethod
    def deregister_graph(self, request: proto.DeregisterGraphRequest, done: Done) -> Withdraw:
        """Forget a registered graph."""

    @abstractmethod
    def run_graph(self, session_handle: str, call: StepCall, done: RunDone) -> Withdraw:
        """Run the task's part of a step; gives a `StepResult`."""

    def logging(self, request: proto.LoggingRequest, done: Done) -> Withdraw:
        """Switch the log of receives, or ask for it; gives a `LoggingResponse`.

        Without an implementation nothing is logged.
        """
        del self, request
        done(proto.LoggingResponse(), None)
        return _nothing

    @abstractmethod
    def cleanup_graph(self, request: proto.CleanupGraphRequest, done: Done) -> Withdraw:
        """End a step: what waits for its tensors is aborted."""

    @abstractmethod
    def cleanup_all(self, request: proto.CleanupAllRequest, done: Done) -> Withdraw:
        """Clear resource containers."""


def _nothing() -> None:
    """Withdraw a call that has ended."""
