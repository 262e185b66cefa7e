"""`Peer` and `Peers`: the other tasks of a cluster; plugins of protocols implement them.

Semantics: `tensorflow/core/distributed_runtime/worker_cache.h`, `worker_interface.h`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from graphmill import proto
from graphmill.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.runtime.rendezvous import ReceiveDone


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
        """Switch the log of receives, or return it for some steps; nothing is logged here."""
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
