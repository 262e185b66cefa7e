"""`Peer` and `Peers`: the other tasks of a cluster; plugins of protocols implement them.

Semantics: `tensorflow/core/distributed_runtime/worker_cache.h`, `worker_interface.h`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from graphmill import proto
from graphmill.errors import OpError, UnavailableError, UnimplementedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.runtime.rendezvous import ReceiveDone

    Answered = Callable[[Any, OpError | None], None]


class Peer(ABC):
    """Another task, from which tensors are pulled.

    Threads: any may call anything.
    """

    @abstractmethod
    def recv_tensor(self, step_id: int, key: str, done: ReceiveDone) -> Callable[[], None]:
        """Request a tensor of a step; return a function that cancels the call.

        `done(value, is_dead, error)` is called once, in any thread, perhaps before this returns;
        after a cancellation too, with any outcome. The value is in host memory.

        Args:
            step_id: id of the step.
            key: the rendezvous key; its sender is on a device of this peer.
            done: receives the outcome.
        """

    def get_status(self, done: Answered) -> Callable[[], None]:
        """Request the devices of the task; return a function that cancels the call.

        The outcome of this and the next two calls is passed to `done(response, error)`, once, in
        any thread. Peers without an implementation cannot have members of groups of collectives.
        """
        return _refuse("GetStatus", done)

    def complete_group(
        self, request: proto.CompleteGroupRequest, done: Answered
    ) -> Callable[[], None]:
        """Ask a group leader for the members of a group, and wait for them."""
        del request
        return _refuse("CompleteGroup", done)

    def complete_instance(
        self, request: proto.CompleteInstanceRequest, done: Answered
    ) -> Callable[[], None]:
        """Join a collective at its group leader, and wait for the other members."""
        del request
        return _refuse("CompleteInstance", done)


def _refuse(method: str, done: Answered) -> Callable[[], None]:
    done(None, UnimplementedError(f"the protocol of this cluster has no call {method}"))
    return lambda: None


class Peers(ABC):
    """The other tasks that a worker session may receive from.

    Threads: any may call anything.
    """

    @abstractmethod
    def get(self, task: str) -> Peer:
        """Return a task by its name, `/job:worker/replica:0/task:1`.

        Raises:
            UnavailableError: the cluster has no such task, or it cannot be reached.
        """

    def logging(self, request: proto.LoggingRequest) -> proto.LoggingResponse:
        """Turn the log of receives on or off, or return it; here nothing is logged."""
        del self, request
        return proto.LoggingResponse()


class NoPeers(Peers):
    """The peers of a task that is alone."""

    def get(self, task: str) -> Peer:
        """Raise: there are no other tasks.

        Raises:
            UnavailableError: always.
        """
        raise UnavailableError(
            f"no task {task} is known here: the cluster of this worker has no other task"
        )
