"""`GrpcPeers`: the other tasks of a cluster, from which tensors are pulled by RecvTensor.

Semantics: `tensorflow/core/distributed_runtime/rpc/grpc_worker_cache.cc`,
`grpc_remote_worker.cc`.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

import grpc

from graphmill.errors import CancelledError, InternalError, OpError, UnavailableError
from graphmill.spi.cluster import Peer, Peers
from graphmill.spi.executors import now
from graphmill.spi.protos import proto
from graphmill_plugins.distributed.task_addresses import addresses_of, lost_task
from graphmill_plugins.distributed.wire.methods import WORKER_METHODS
from graphmill_plugins.distributed.wire.status import error_from_rpc
from graphmill_plugins.distributed.wire.tensor_messages import RECV_TENSOR_RESPONSE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from graphmill.spi import Value
    from graphmill_plugins.distributed.worker.rpc_log import RpcLog

CHANNEL_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # The variables of the environment for proxies are not meant for a cluster's own calls.
    ("grpc.enable_http_proxy", 0),
)
"""How tasks of a cluster talk to each other."""


class GrpcPeer(Peer):
    """One other task.

    Args:
        name: of the task.
        address: `HOST:PORT`.
        log: where receives are recorded.
    """

    def __init__(self, name: str, address: str, log: RpcLog) -> None:
        self._where = f"RecvTensor of {name} at {address}"
        self._closed_by: OpError | None = None
        self._log = log
        self._channel = grpc.insecure_channel(address, CHANNEL_OPTIONS)
        self._recv_tensor = self._channel.unary_unary(WORKER_METHODS["RecvTensor"].path)

    def recv_tensor(
        self, step_id: int, key: str, done: Callable[[Value, bool, BaseException | None], None]
    ) -> Callable[[], None]:
        """Ask for a tensor of a step; see `Peer`.

        A task that is about to be there again is waited for; the step's end withdraws the call.
        """
        request = proto.RecvTensorRequest(step_id=step_id, rendezvous_key=key, dma_ok=True)
        started = now()  # a master switches the log on while its step begins
        try:
            future = self._recv_tensor.future(request.SerializeToString(), wait_for_ready=True)
        except ValueError:  # what grpcio raises for a channel that was closed
            closed = CancelledError(f"{self._where} was not sent: the connection has been closed")
            done(None, False, self._closed_by or closed)
            return _nothing

        def finished(future: Any) -> None:
            try:
                value, is_dead = self._outcome(future)
            except OpError as error:
                done(None, False, error)
                return
            except Exception as error:  # noqa: BLE001 - the end of a thread: the step must be told
                text = f"{self._where} failed: {type(error).__name__}: {error}"
                done(None, False, InternalError(text))
                return
            if self._log.is_on:
                self._log.record(step_id, key, started, value)
            done(value, is_dead, None)

        future.add_done_callback(finished)
        withdraw: Callable[[], None] = future.cancel
        return withdraw

    def _outcome(self, future: Any) -> tuple[Value, bool]:
        """Return the tensor that came, and whether it is dead.

        Raises:
            OpError: the call failed.
        """
        if future.cancelled():
            raise CancelledError(f"{self._where} was withdrawn")
        if future.code() is grpc.StatusCode.CANCELLED and self._closed_by is not None:
            raise self._closed_by
        if future.code() is not grpc.StatusCode.OK:
            raise error_from_rpc(future, self._where)
        message, tensors = RECV_TENSOR_RESPONSE.decode(future.result())
        if message.is_dead:
            return None, True
        if not tensors:
            raise InternalError(f"{self._where} gave neither a tensor nor that it is dead")
        return tensors[0].value, False

    def close(self, reason: OpError | None = None) -> None:
        """End the connection and all calls.

        Args:
            reason: what receives end with; by default CancelledError.
        """
        self._closed_by = reason
        self._channel.close()


class GrpcPeers(Peers):
    """The tasks of one cluster but this one, connected to when they are first needed.

    Threads: `_lock` guards the table.

    Args:
        cluster: names and addresses of all tasks.
        log: where receives are recorded.
    """

    def __init__(self, cluster: proto.ClusterDef, log: RpcLog) -> None:
        self._addresses = addresses_of(cluster)
        self._log = log
        self._lock = threading.Lock()
        self._peers: dict[str, GrpcPeer] = {}

    def get(self, task: str) -> Peer:
        """Return a task by its name; see `Peers`."""
        with self._lock:
            found = self._peers.get(task)
            if found is not None:
                return found
            address = self._addresses.get(task)
            if address is None:
                known = ", ".join(sorted(self._addresses)) or "none"
                raise UnavailableError(
                    f"no task {task} is in the cluster of this worker; its tasks: {known}"
                )
            made = self._peers[task] = GrpcPeer(task, address, self._log)
            return made

    def update(self, cluster: proto.ClusterDef, restarted: Collection[str]) -> None:
        """Reach the tasks where they are from now on; receives from those that moved are aborted.

        Args:
            cluster: names and addresses of all tasks.
            restarted: names of those that are another process now, perhaps at the old address.
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

    def close(self) -> None:
        """End all connections."""
        with self._lock:
            peers, self._peers = self._peers, {}
        for peer in peers.values():
            peer.close()


def _nothing() -> None:
    """Withdraw a call that was not sent."""
