"""`RendezvousMgr`: the rendezvous of the steps of a worker, by step id (clause W4).

Semantics: `tensorflow/core/distributed_runtime/base_rendezvous_mgr.cc`, and the check of
incarnations in `rpc/rpc_rendezvous_mgr.cc`. Unlike TensorFlow, a receive for a step that has ended
fails at once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from graphmill.distributed.worker.remote_rendezvous import RemoteRendezvous
from graphmill.errors import AbortedError, InvalidArgumentError
from graphmill.graph.device_name import task_of
from graphmill.runtime.process.fork import fork_safe_lock
from graphmill.runtime.rendezvous import RendezvousKey, TransferArgs
from graphmill.runtime.steps.frame_ids import ROOT_FRAME_ITERATION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from graphmill.runtime.devices.device import Device
    from graphmill.runtime.rendezvous import ReceiveDone
    from graphmill.runtime.steps.cancellation import CancellationManager
    from graphmill.typing import Value

MAX_ENDED: Final = 10_000
"""The number of ended steps remembered; receives for older ones wait until they are cancelled."""


class RendezvousMgr:
    """The rendezvous of a worker's steps.

    Threads: `_lock` guards the tables.

    Args:
        devices: the worker's devices, which send tensors.
    """

    def __init__(self, devices: Iterable[Device]) -> None:
        self._devices = {device.name: device for device in devices}
        self._lock = fork_safe_lock()
        self._steps: dict[int, RemoteRendezvous] = {}
        self._ended: dict[int, None] = {}
        self._repeatable: set[int] = set()
        self._at_end: list[Callable[[int], None]] = []

    def __len__(self) -> int:
        return len(self._steps)

    def on_step_end(self, callback: Callable[[int], None]) -> None:
        """Call `callback` with the id of each step that is cleaned up from now on.

        The callback frees what a protocol stores for receivers of the step.
        """
        self._at_end.append(callback)

    def has_ended(self, step_id: int) -> bool:
        """Return whether a step is known to have been cleaned up."""
        return step_id in self._ended

    def allow_repeat(self, step_id: int) -> None:
        """Allow a new step, and a later one, to have the id of a step that has ended.

        TensorFlow's masters number steps with a `collective_graph_key` sequentially, and reuse the
        id of a step that failed. The end of such a step is not recorded, because another task may
        request tensors of the next one before it starts here.
        """
        with self._lock:
            self._ended.pop(step_id, None)
            self._repeatable.add(step_id)

    def find(self, step_id: int) -> RemoteRendezvous:
        """Return the rendezvous of a step, created by the first call, from any task.

        Raises:
            AbortedError: the step has ended.
        """
        with self._lock:
            rendezvous = self._steps.get(step_id)
            if rendezvous is None:
                if step_id in self._ended:
                    raise AbortedError(f"step {step_id} has ended on this worker")
                rendezvous = self._steps[step_id] = RemoteRendezvous()
            return rendezvous

    def recv_local_async(
        self,
        step_id: int,
        key: str,
        done: ReceiveDone,
        cancellation: CancellationManager | None = None,
    ) -> None:
        """Receive a tensor for another task; its value is in host memory when `done` is called.

        Args:
            step_id: id of the step, which may not have started.
            key: names a sender on a device of this worker.
            done: receives the outcome, perhaps before this returns.
            cancellation: that of the call.

        Raises:
            InvalidArgumentError: the key is malformed, or its sender is not a device of this
                worker.
            AbortedError: the key is for an earlier incarnation of the device, or the step has
                ended.
        """
        self._check_sender(_without_iteration(key.rpartition(";")[0]))
        rendezvous = self.find(step_id)

        def finished(value: Value, is_dead: bool, error: BaseException | None) -> None:
            if error is not None:
                self._drop_unused(step_id, rendezvous)
            done(value, is_dead, error)

        rendezvous.recv_local_async(key, TransferArgs(None, True, cancellation), finished)

    def cleanup(self, step_id: int) -> None:
        """End a step: abort all pending and later receives of its rendezvous."""
        with self._lock:
            rendezvous = self._steps.pop(step_id, None)
            if step_id in self._repeatable:
                self._repeatable.remove(step_id)
            else:
                self._ended[step_id] = None
            if len(self._ended) > MAX_ENDED:
                del self._ended[next(iter(self._ended))]
        if rendezvous is not None:
            rendezvous.start_abort(AbortedError(f"step {step_id} was cleaned up"))
        for callback in self._at_end:
            callback(step_id)

    def cleanup_all(self) -> None:
        """End all steps."""
        for step_id in list(self._steps):
            self.cleanup(step_id)

    def _check_sender(self, key: RendezvousKey) -> None:
        device = self._devices.get(key.src_device)
        if device is None:
            raise InvalidArgumentError(
                f"the sender {key.src_device!r} of {key.edge_name!r} is not a device of this "
                f"worker; its devices: {', '.join(self._devices)}"
            )
        incarnation = device.attributes.incarnation
        if key.src_incarnation != incarnation:
            raise AbortedError(
                "RecvTensor expects a different device incarnation: "
                f"{key.src_incarnation} vs. {incarnation}. Your worker job "
                f'("{task_of(device.name)}") was probably restarted. Check your '
                "worker job for the reason why it was restarted."
            )

    def _drop_unused(self, step_id: int, rendezvous: RemoteRendezvous) -> None:
        """Drop a rendezvous that no step uses, once the callers of its receives are gone."""
        with self._lock:
            is_unused = not rendezvous.is_initialized and rendezvous.is_empty
            if is_unused and self._steps.get(step_id) is rendezvous:
                del self._steps[step_id]


@lru_cache(maxsize=4096)
def _without_iteration(head: str) -> RendezvousKey:
    """Return the key of an edge in its first iteration; steps request the same edges again.

    Raises:
        InvalidArgumentError: it is malformed.
    """
    return RendezvousKey.parse(f"{head};{ROOT_FRAME_ITERATION}")
