"""`RemoteRendezvous`: the rendezvous of a step on a worker, which also receives from other tasks.

Semantics: `tensorflow/core/distributed_runtime/base_rendezvous_mgr.cc`. The receiver pulls: a
tensor from another task is requested when the receive starts. All receives of a step may be in
flight at once, and all end with the step.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from graphmill.errors import CancelledError, InternalError, OpError
from graphmill.runtime.rendezvous import (
    IntraProcessRendezvous,
    Rendezvous,
    TransferArgs,
    derived,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from graphmill.distributed.worker.peers import Peers
    from graphmill.runtime.rendezvous import ReceiveDone
    from graphmill.typing import Value

_DEVICE: Final = "/device:"


class RemoteRendezvous(Rendezvous):
    """Passes tensors within a worker, and pulls those that other tasks send.

    It may be created before the step starts, by a RecvTensor of another task; only receives of this
    worker's own nodes need `initialize`.

    Threads: `_lock` guards the calls in flight and the error.
    """

    __slots__ = ("_calls", "_devices", "_error", "_is_partial", "_local", "_lock", "_peers")

    def __init__(self) -> None:
        self._local = IntraProcessRendezvous()
        self._lock = threading.Lock()
        self._calls: set[_Pull] = set()
        self._error: OpError | None = None
        self._devices: Container[str] = ()
        self._peers: tuple[int, Peers] | None = None
        self._is_partial = False

    def initialize(
        self, step_id: int, devices: Container[str], peers: Peers, *, is_partial: bool = False
    ) -> None:
        """Set the senders for the step of a worker session; a second call does nothing.

        Args:
            step_id: id of the step.
            devices: names of the session's own devices.
            peers: the other tasks.
            is_partial: whether its master may send more feeds later.
        """
        if self._peers is None:
            self._devices = devices
            self._is_partial = is_partial
            self._peers = (step_id, peers)

    @property
    def is_initialized(self) -> bool:
        """Whether a step of this worker uses it."""
        return self._peers is not None

    @property
    def is_empty(self) -> bool:
        """Whether no value and no receiver waits in it."""
        return not (self._local.num_entries or self._calls)

    def send(self, key: str, args: TransferArgs, value: Value, is_dead: bool = False) -> None:
        """Send a value to the receiver under `key`, which may be on another task."""
        self._local.send(key, args, value, is_dead)

    def recv_async(self, key: str, args: TransferArgs, done: ReceiveDone) -> None:
        """Call `done(value, is_dead, error)` when the value has arrived; see `Rendezvous`."""
        source = key.partition(";")[0]
        if source in self._devices or not self._is_elsewhere(key, source):
            self._local.recv_async(key, args, done)
        else:
            self._pull(key, source.partition(_DEVICE)[0], args, done)

    def recv_local_async(self, key: str, args: TransferArgs, done: ReceiveDone) -> None:
        """Receive a value that a device of this worker sends, for another task or the master."""
        self._local.recv_async(key, args, done)

    def start_abort(self, error: OpError) -> None:
        """Fail all pending receives, here and on other tasks, and all later calls."""
        with self._lock:
            if self._error is None:
                self._error = error
            calls = list(self._calls)
        self._local.start_abort(error)
        for call in calls:
            call.end(derived(error))

    def awaited_keys(self) -> list[str] | None:
        """Return the keys for which this worker's nodes wait.

        None while another task may send something. Keys that other tasks wait for are left out:
        when a pull has arrived, its call ends shortly before its node is notified; if only another
        task's key were listed in between, the step would look deadlocked.
        """
        if self._calls or self._is_partial:
            return None
        keys = self._local.awaited_keys()
        return [key for key in keys if _target_of(key) in self._devices]

    def _is_elsewhere(self, key: str, source: str) -> bool:
        """Return whether another task, not the step's own client, sends a value."""
        return source.partition(_DEVICE)[0] != _target_of(key).partition(_DEVICE)[0]

    def _pull(self, key: str, task: str, args: TransferArgs, done: ReceiveDone) -> None:
        if self._peers is None:
            raise InternalError(f"nothing can be received from {task} yet: the step has not begun")
        step_id, peers = self._peers
        call = _Pull(args, done, self._forget)
        with self._lock:
            error = self._error
            if error is None:
                self._calls.add(call)
        if error is not None:
            done(None, False, derived(error))
            return
        try:
            peer = peers.get(task)
        except OpError as failure:
            call.end(failure)
            return
        call.start(lambda finish: peer.recv_tensor(step_id, key, finish), key)

    def _forget(self, call: _Pull) -> None:
        with self._lock:
            self._calls.discard(call)


def _target_of(key: str) -> str:
    """Return the device that receives the value under a key."""
    return key.split(";", 3)[2]


class _Pull:
    """A receive from another task that is in flight.

    Threads: `_lock` decides which outcome is the first; `done` is called outside of it.
    """

    __slots__ = ("_args", "_done", "_forget", "_has_ended", "_lock", "_token", "_withdraw")

    def __init__(
        self, args: TransferArgs, done: ReceiveDone, forget: Callable[[_Pull], None]
    ) -> None:
        self._args = args
        self._done = done
        self._forget = forget
        self._lock = threading.Lock()
        self._has_ended = False
        self._token: int | None = None
        self._withdraw: Callable[[], None] | None = None

    def start(self, pull: Callable[[ReceiveDone], Callable[[], None]], key: str) -> None:
        """Send the request, unless the receive has ended."""
        cancellation = self._args.cancellation
        if cancellation is not None:
            reason = f"the wait for {key} was cancelled"
            self._token = cancellation.register(lambda: self.end(CancelledError(reason)))
            if self._token is None:
                self.end(CancelledError(reason))
                return
        withdraw = pull(self._finish)
        with self._lock:
            self._withdraw = withdraw
            has_ended = self._has_ended
        if has_ended:
            withdraw()
            self._detach()

    def end(self, error: OpError) -> None:
        """End the receive with an error immediately, without waiting for the other task."""
        if self._is_first():
            if self._withdraw is not None:
                self._withdraw()
            self._complete(None, False, error)

    def _finish(self, value: Value, is_dead: bool, error: BaseException | None) -> None:
        if not self._is_first():
            return
        args = self._args
        if error is None and not is_dead and not args.on_host:
            try:
                value = args.device.to_device(value)  # type: ignore[union-attr]
            except Exception as failure:  # noqa: BLE001 - a device's code: the node names the place
                value, error = None, failure
        self._complete(value, is_dead, error)

    def _is_first(self) -> bool:
        with self._lock:
            has_ended, self._has_ended = self._has_ended, True
        return not has_ended

    def _complete(self, value: Value, is_dead: bool, error: BaseException | None) -> None:
        self._detach()
        self._forget(self)
        self._done(value, is_dead, error)

    def _detach(self) -> None:
        if self._token is not None and self._args.cancellation is not None:
            self._args.cancellation.deregister(self._token)
