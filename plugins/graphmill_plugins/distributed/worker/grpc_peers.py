"""`GrpcPeers`: the other tasks of a cluster, as a worker calls them, most often by RecvTensor.

Semantics: `tensorflow/core/distributed_runtime/rpc/grpc_worker_cache.cc`,
`grpc_remote_worker.cc`.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import InternalError, OpError, UnavailableError
from graphmill.spi.cluster import Peer, Peers
from graphmill.spi.executors import now
from graphmill.spi.protos import proto
from graphmill_plugins.distributed.connection import Connection
from graphmill_plugins.distributed.task_addresses import addresses_of, lost_task
from graphmill_plugins.distributed.transfer.counters import MESSAGE, PIECES, SHARED_MEMORY
from graphmill_plugins.distributed.transfer.piece_fetch import PieceFetch
from graphmill_plugins.distributed.wire.methods import WORKER_METHODS
from graphmill_plugins.distributed.wire.tensor_messages import RECV_TENSOR_RESPONSE, parse_message

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Protocol

    from google.protobuf.message import Message

    from graphmill.spi import Value
    from graphmill_plugins.distributed.credentials import Credentials
    from graphmill_plugins.distributed.transfer.counters import TransferCounters
    from graphmill_plugins.distributed.transfer.tensor_receiver import (
        OfferedTensor,
        TensorReceiver,
    )
    from graphmill_plugins.distributed.worker.rpc_log import RpcLog

    Answered = Callable[[Any, OpError | None], None]

    class Finish(Protocol):
        """Ends a receive."""

        def __call__(
            self, value: Value, is_dead: bool, error: BaseException | None, path: str = ...
        ) -> None:
            """Pass on the outcome, and the path of the tensor."""


_METHODS: Final = ("RecvTensor", "GetStatus", "CompleteGroup", "CompleteInstance")


class GrpcPeer(Peer):
    """One other task.

    Args:
        name: that of the task.
        address: `HOST:PORT`.
        log: records receives.
        receiver: receives large tensors.
        counters: count transfers.
        silence: the number of seconds for which it may be silent while calls are in flight; 0 for
            no limit.
        credentials: for TLS; None for connections without TLS.
        may_be_local: whether calls may go over a local socket; see `Connection`.
    """

    def __init__(
        self,
        name: str,
        address: str,
        log: RpcLog,
        receiver: TensorReceiver,
        counters: TransferCounters,
        silence: float,
        credentials: Credentials | None = None,
        *,
        may_be_local: bool = False,
    ) -> None:
        self._where = f"RecvTensor of {name} at {address}"
        self._log = log
        self._receiver = receiver
        self._counters = counters
        self._may_share_memory = True
        methods = [WORKER_METHODS[name] for name in _METHODS]
        self._connection = Connection(
            f"{name} at {address}",
            address,
            methods,
            silence,
            credentials=credentials,
            may_be_local=may_be_local,
        )

    def recv_tensor(
        self, step_id: int, key: str, done: Callable[[Value, bool, BaseException | None], None]
    ) -> Callable[[], None]:
        """Request a tensor of a step; see `Peer`.

        The call waits for a restarting task; the end of the step cancels it.
        """
        request = proto.RecvTensorRequest(step_id=step_id, rendezvous_key=key, dma_ok=True)
        data = request.SerializeToString()
        data += self._receiver.options(is_near=self._may_share_memory)
        started = now()  # a master switches the log on while its step begins

        def finish(
            value: Value, is_dead: bool, error: BaseException | None, path: str = MESSAGE
        ) -> None:
            if error is None:
                if self._log.is_on:
                    self._log.record(step_id, key, started, value)
                self._counters.received(path, getattr(value, "nbytes", 0))
            done(value, is_dead, error)

        def finished(data: bytes | None, error: OpError | None) -> None:
            if data is None:
                finish(None, False, error)
                return
            try:
                self._take(data, withdrawal, finish)
            except OpError as failure:
                finish(None, False, failure)
            except Exception as failure:  # noqa: BLE001 - the end of a thread: it is passed to the step
                finish(None, False, self._unexpected(failure))

        withdrawal = _Withdrawal()
        withdrawal.begin(self._connection.start("RecvTensor", data, finished, waits=True))
        return withdrawal

    def get_status(self, done: Answered) -> Callable[[], None]:
        """Request the devices of the task; see `Peer`."""
        return self._call("GetStatus", proto.GetStatusRequest(), done)

    def complete_group(
        self, request: proto.CompleteGroupRequest, done: Answered
    ) -> Callable[[], None]:
        """Ask a group leader for the members of a group; see `Peer`."""
        return self._call("CompleteGroup", request, done)

    def complete_instance(
        self, request: proto.CompleteInstanceRequest, done: Answered
    ) -> Callable[[], None]:
        """Join a collective at its group leader; see `Peer`."""
        return self._call("CompleteInstance", request, done)

    def _call(self, method: str, request: Message, done: Answered) -> Callable[[], None]:
        def finished(data: bytes | None, error: OpError | None) -> None:
            response = None
            if data is not None:
                try:
                    response = parse_message(WORKER_METHODS[method].response, data)
                except OpError as failure:
                    error = failure
            done(response, error)

        return self._connection.start(method, request.SerializeToString(), finished)

    def _take(self, data: bytes, withdrawal: _Withdrawal, finish: Finish) -> None:
        """Read the tensor of a response, or fetch it from its location.

        Raises:
            OpError: the response, or the offer in it, is invalid.
        """
        message, tensors = RECV_TENSOR_RESPONSE.decode(data, self._receiver.variants)
        offer = self._receiver.offered(message)
        if offer is not None:
            self._take_offered(offer, tensors[0].value if tensors else None, withdrawal, finish)
        elif message.is_dead:
            finish(None, True, None)
        elif tensors:
            finish(tensors[0].value, False, None)
        else:
            raise InternalError(f"{self._where} returned neither a tensor nor a dead marker")

    def _take_offered(
        self, offer: OfferedTensor, first: Value, withdrawal: _Withdrawal, finish: Finish
    ) -> None:
        if offer.shared_memory is not None:
            try:
                array = self._receiver.map(offer)
            except OSError as error:
                # Containers or security policies may separate two tasks of one machine.
                self._may_share_memory = not isinstance(error, PermissionError)
                self._counters.fell_back()
            else:
                finish(array, False, None, SHARED_MEMORY)
                return
        fetch = PieceFetch(
            offer,
            lambda offset, done: self._ask(offer.transfer_id, offset, done),
            lambda array, error: finish(array, False, error, PIECES),
        )
        withdrawal.become(fetch.cancel)
        fetch.start(first)

    def _ask(
        self, transfer_id: int, offset: int, done: Callable[[bytes | None, OpError | None], None]
    ) -> Callable[[], None]:
        """Request a piece; see `PieceFetch`."""
        request = self._receiver.piece_request(transfer_id, offset)

        def finished(data: bytes | None, error: OpError | None) -> None:
            try:
                done(data, error)
            except Exception as failure:  # noqa: BLE001 - the end of a thread: it is passed to the step
                done(None, self._unexpected(failure))

        return self._connection.start("RecvTensor", request, finished, waits=True)

    def _unexpected(self, error: Exception) -> InternalError:
        return InternalError(f"{self._where} failed: {type(error).__name__}: {error}")

    def close(self, reason: OpError | None = None) -> None:
        """End the connection and all calls.

        Args:
            reason: what receives end with; by default CancelledError.
        """
        self._connection.close(reason)


class _Withdrawal:
    """Cancels a receive, which makes several calls in sequence.

    Threads: `_lock` guards both attributes.
    """

    __slots__ = ("_is_called", "_lock", "_withdraw")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._withdraw: Callable[[], object] | None = None
        self._is_called = False

    def begin(self, withdraw: Callable[[], object]) -> None:
        """Set the first call, unless it has been answered and others have followed."""
        with self._lock:
            if self._withdraw is not None:
                return
            self._withdraw = withdraw
            is_called = self._is_called
        if is_called:
            withdraw()

    def become(self, withdraw: Callable[[], object]) -> None:
        """Set the next call, and cancel it immediately if the receive has been cancelled."""
        with self._lock:
            self._withdraw = withdraw
            is_called = self._is_called
        if is_called:
            withdraw()

    def __call__(self) -> None:
        with self._lock:
            self._is_called = True
            withdraw = self._withdraw
        if withdraw is not None:
            withdraw()


class GrpcPeers(Peers):
    """The other tasks of a cluster, connected on first use.

    Threads: `_lock` guards the table.

    Args:
        cluster: names and addresses of all tasks.
        log: records receives.
        receiver: receives large tensors.
        counters: count transfers.
        silence: the number of seconds for which a task may be silent; 0 for no limit.
        credentials: for TLS; None for connections without TLS.
        may_be_local: whether calls may go over a local socket; see `Connection`.
    """

    def __init__(
        self,
        cluster: proto.ClusterDef,
        log: RpcLog,
        receiver: TensorReceiver,
        counters: TransferCounters,
        silence: float,
        credentials: Credentials | None = None,
        *,
        may_be_local: bool = False,
    ) -> None:
        self._addresses = addresses_of(cluster)
        self._log = log
        self._make = partial(
            GrpcPeer,
            log=log,
            receiver=receiver,
            counters=counters,
            silence=silence,
            credentials=credentials,
            may_be_local=may_be_local,
        )
        self._lock = threading.Lock()
        self._peers: dict[str, GrpcPeer] = {}

    def get(self, task: str) -> Peer:
        """Return a task by its name; see `Peers`."""
        with self._lock:
            peer = self._peers.get(task)
            if peer is not None:
                return peer
            address = self._addresses.get(task)
            if address is None:
                known = ", ".join(sorted(self._addresses)) or "none"
                raise UnavailableError(
                    f"no task {task} is in the cluster of this worker; its tasks: {known}"
                )
            new_peer = self._peers[task] = self._make(task, address)
            return new_peer

    def update(self, cluster: proto.ClusterDef, restarted: Collection[str]) -> None:
        """Use new addresses of the tasks; abort receives from tasks that have moved.

        Args:
            cluster: names and addresses of all tasks.
            restarted: names of tasks whose process was replaced, perhaps at the old address.
        """
        addresses = addresses_of(cluster)
        with self._lock:
            before, self._addresses = self._addresses, addresses
            lost = {
                task: self._peers.pop(task)
                for task in list(self._peers)
                if task in restarted or addresses.get(task) != before[task]
            }
        for task, peer in lost.items():
            peer.close(lost_task(task, addresses.get(task)))

    def logging(self, request: proto.LoggingRequest) -> proto.LoggingResponse:
        """Turn the log of receives on or off, or return it for some steps."""
        return self._log.answer(request)

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            peers, self._peers = self._peers, {}
        for peer in peers.values():
            peer.close()
