"""`Rendezvous`: exchanges tensors between the partitions of a step (clause R1).

Semantics: `tensorflow/core/framework/rendezvous.h`, `local_rendezvous.cc`,
`tensorflow/core/common_runtime/rendezvous_mgr.cc`. As in TensorFlow 1.0, a second send under a key
is an error.
"""

from __future__ import annotations

import copy
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from graphmill.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
    OpError,
)
from graphmill.graph.device_name import parse_device_name
from graphmill.runtime.steps.frame_ids import ROOT_FRAME_ITERATION

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.registry import Provenance
    from graphmill.runtime.devices.device import Device
    from graphmill.runtime.steps.cancellation import CancellationManager
    from graphmill.runtime.steps.waits import WaitRecord
    from graphmill.typing import Value

    ReceiveDone = Callable[[Value, bool, BaseException | None], None]
    """Takes the value, whether it is dead, and the error if there is one."""

_NUM_PARTS = 5


class RendezvousKey(NamedTuple):
    """The name of a tensor in a step: `SRC_DEVICE;INCARNATION;DST_DEVICE;EDGE_NAME;FRAME:ITER`.

    Attributes:
        src_device, dst_device: full names of the devices.
        src_incarnation: incarnation of the source device; 16 hex digits in the text form.
        edge_name: name of the edge, unique for the two devices.
        frame_iteration: `0:0` outside of loops, else the ids of frame and iteration (`frame_ids`).
    """

    src_device: str
    src_incarnation: int
    dst_device: str
    edge_name: str
    frame_iteration: str = ROOT_FRAME_ITERATION

    def __str__(self) -> str:
        return self.prefix + self.frame_iteration

    @property
    def prefix(self) -> str:
        """The text of the key before the frame id; it is the same in all iterations."""
        return f"{self.src_device};{self.src_incarnation:016x};{self.dst_device};{self.edge_name};"

    @classmethod
    def parse(cls, text: str) -> RendezvousKey:
        """Parse the text form of a key.

        Raises:
            InvalidArgumentError: it does not have five parts with two full device names.
        """
        parts = text.split(";", _NUM_PARTS - 1)
        if len(parts) == _NUM_PARTS and parts[3] and _is_full(parts[0]) and _is_full(parts[2]):
            try:
                return cls(parts[0], int(parts[1], 16), parts[2], parts[3], parts[4])
            except ValueError:
                pass  # the incarnation is not a number
        raise InvalidArgumentError(
            f"Invalid rendezvous key: {text!r}; expected "
            "'SRC_DEVICE;INCARNATION;DST_DEVICE;EDGE_NAME;FRAME:ITER' with full device names"
        )


class TransferArgs(NamedTuple):
    """The sender's or the receiver's end of a transfer.

    Attributes:
        device: the device that has the value or gets it; None for host memory without a device.
        on_host: whether the value is in host memory of the device.
        cancellation: cancels the wait of a receiver.
        node, op: name and op type of the node that receives, for messages.
        is_fed: whether the client sends the value: a feed of a partial run, for messages.
    """

    device: Device | None = None
    on_host: bool = True
    cancellation: CancellationManager | None = None
    node: str = ""
    op: str = ""
    is_fed: bool = False


HOST = TransferArgs()
"""The end of a client: NumPy values in host memory."""


class Rendezvous(ABC):
    """Passes values from senders to receivers by key; either side may come first.

    Threads: all methods may be called from any thread. `done` is called once, outside of all locks,
    by the thread that completes the pair: the receiver's, the sender's, or one that aborts or
    cancels.

    Attributes:
        owner: the plugin whose transport created it; set by the session, unset for others.
    """

    __slots__ = ("owner",)
    owner: Provenance

    @abstractmethod
    def send(self, key: str, args: TransferArgs, value: Value, is_dead: bool = False) -> None:
        """Send a value to the receiver under `key`, without waiting for the receiver.

        Raises:
            AbortedError: a value that was sent under `key` before has not been received.
            OpError: the rendezvous was aborted; derived from what it was aborted with.
        """

    @abstractmethod
    def recv_async(self, key: str, args: TransferArgs, done: ReceiveDone) -> None:
        """Call `done(value, is_dead, error)` when the value under `key` has arrived.

        The error is CancelledError after a cancellation, AbortedError if another receiver waits for
        `key` already, and derived from the error of `start_abort` after that.
        """

    @abstractmethod
    def start_abort(self, error: OpError) -> None:
        """Fail all pending receives and all later calls; only the first call has an effect."""

    def awaited_keys(self) -> list[str] | None:
        """Return the keys that receives wait for; None if that is unknown.

        Called when a step has no ready node, to detect a deadlock.
        """
        return None

    def recv(
        self, key: str, args: TransferArgs, timeout: float | None = None
    ) -> tuple[Value, bool]:
        """Wait for the value under `key`; return it and whether it is dead.

        Args:
            key: the key.
            args: the receiver's end; its `cancellation` ends the wait.
            timeout: seconds; None to wait without limit.

        Raises:
            DeadlineExceededError: no value arrived in time; a value that arrives later is lost.
            OpError: the error that `recv_async` reports.
        """
        arrived = threading.Event()
        outcome: list[tuple[Value, bool, BaseException | None]] = []

        def done(value: Value, is_dead: bool, error: BaseException | None) -> None:
            outcome.append((value, is_dead, error))
            arrived.set()

        self.recv_async(key, args, done)
        if not arrived.wait(timeout):
            raise DeadlineExceededError(f"nothing was sent within {timeout} s under {key}")
        value, is_dead, error = outcome[0]
        if error is not None:
            raise error
        return value, is_dead


class _Sent(NamedTuple):
    """A value that waits for its receiver."""

    args: TransferArgs
    value: Any
    is_dead: bool


class _Waiting:
    """A receiver that waits for its value; when called on cancellation, it gives up.

    It describes itself as a `Wait` does, without having one made for each receive.
    """

    __slots__ = ("args", "done", "is_taken", "key", "rendezvous", "token")

    def __init__(
        self, rendezvous: IntraProcessRendezvous, key: str, args: TransferArgs, done: ReceiveDone
    ) -> None:
        self.rendezvous = rendezvous
        self.key = key
        self.args = args
        self.done = done
        self.token: int | None = None
        self.is_taken = False

    def __call__(self) -> None:
        self.rendezvous.give_up(self)

    @property
    def wait(self) -> Self:
        """What the receiver waits for."""
        return self

    def record(self) -> WaitRecord:
        """Return what the receiver waits for."""
        from graphmill.runtime.steps.waits import WaitRecord  # somebody asks

        source, _, target, edge, _ = self.key.split(";", _NUM_PARTS - 1)
        what = f"the feed of '{edge}'" if self.args.is_fed else f"'{edge}' from {source}"
        return WaitRecord(self.args.node, self.args.op, target, what)

    def withdraw(self) -> None:
        """Remove the cancellation callback."""
        if self.token is not None and self.args.cancellation is not None:
            self.args.cancellation.deregister(self.token)


class IntraProcessRendezvous(Rendezvous):
    """The rendezvous of devices in this process; copies values between their memories.

    Threads: `_lock` guards the table and the error. Copies and callbacks run outside of it.
    """

    __slots__ = ("_error", "_lock", "_table")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._table: dict[str, _Sent | _Waiting] = {}
        self._error: OpError | None = None

    def send(self, key: str, args: TransferArgs, value: Value, is_dead: bool = False) -> None:
        """Send a value to the receiver under `key`; see `Rendezvous.send`."""
        sent = _Sent(args, value, is_dead)
        with self._lock:
            error = self._error
            waiting = self._table.get(key) if error is None else None
            if type(waiting) is _Waiting:
                waiting.is_taken = True
                del self._table[key]
            elif waiting is None and error is None:
                self._table[key] = sent
        if error is not None:
            raise derived(error)
        if type(waiting) is _Waiting:
            waiting.withdraw()
            _deliver(sent, waiting.args, waiting.done)
        elif waiting is not None:
            raise AbortedError(f"Duplicated send: {key}. The previous value was not received yet")

    def recv_async(self, key: str, args: TransferArgs, done: ReceiveDone) -> None:
        """Call `done(value, is_dead, error)` when the value has arrived; see `Rendezvous`."""
        waiting = _Waiting(self, key, args, done)
        with self._lock:
            error = self._error
            item = self._table.get(key) if error is None else None
            if type(item) is _Sent:
                del self._table[key]
            elif item is None and error is None:
                self._table[key] = waiting
        if error is not None:
            done(None, False, derived(error))
        elif type(item) is _Sent:
            _deliver(item, args, done)
        elif item is not None:
            done(
                None,
                False,
                AbortedError(f"Duplicated recv: {key}. Another receive already waits for it"),
            )
        elif args.cancellation is not None:
            self._watch_cancellation(waiting, args.cancellation)

    def start_abort(self, error: OpError) -> None:
        """Fail all pending receives and all later calls; only the first call has an effect."""
        with self._lock:
            if self._error is not None:
                return
            self._error = error
            waiting = [entry for entry in self._table.values() if type(entry) is _Waiting]
            self._table.clear()
        for entry in waiting:
            entry.withdraw()
            entry.done(None, False, derived(error))

    @property
    def num_entries(self) -> int:
        """The number of waiting values and receivers."""
        return len(self._table)

    def awaited_keys(self) -> list[str]:
        """Return the keys of pending receives."""
        with self._lock:
            return [key for key, entry in self._table.items() if type(entry) is _Waiting]

    def give_up(self, waiting: _Waiting) -> None:
        """End a pending receive with CancelledError."""
        with self._lock:
            if self._table.get(waiting.key) is not waiting:
                return
            del self._table[waiting.key]
        waiting.done(None, False, CancelledError(f"the wait for {waiting.key} was cancelled"))

    def _watch_cancellation(self, waiting: _Waiting, cancellation: CancellationManager) -> None:
        waiting.token = cancellation.register(waiting)
        if waiting.token is None:
            self.give_up(waiting)
        elif waiting.is_taken:  # the value arrived before the token was set
            waiting.withdraw()


def derived(error: OpError) -> OpError:
    """Return an error of the same class and message, marked as derived from another error."""
    copied = copy.copy(error)
    copied.is_derived = True
    copied.node = copied.op_type = copied.device = copied.plugin = None
    copied.__cause__ = error
    return copied


def _deliver(sent: _Sent, target: TransferArgs, done: ReceiveDone) -> None:
    if sent.is_dead:
        done(None, True, None)
        return
    try:
        value = _copied(sent.value, sent.args, target)
    except Exception as error:  # noqa: BLE001 - a device's code; reported at the receiver's node
        done(None, False, error)
    else:
        done(value, False, None)


def _copied(value: Value, source: TransferArgs, target: TransferArgs) -> Value:
    if source.device is target.device and source.on_host == target.on_host:
        return value
    if not source.on_host:
        value = source.device.to_host(value)  # type: ignore[union-attr]
    if not target.on_host:
        value = target.device.to_device(value)  # type: ignore[union-attr]
    return value


def _is_full(name: str) -> bool:
    try:
        return parse_device_name(name).is_complete
    except InvalidArgumentError:
        return False
