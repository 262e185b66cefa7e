"""`GrpcWorker`: a task's worker service over gRPC, as a master calls it.

Semantics: `tensorflow/core/distributed_runtime/rpc/grpc_remote_worker.cc`. The worker may be
TensorFlow's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import numpy as np

from graphmill.errors import CancelledError, InternalError, OpError
from graphmill.spi.cluster import StepResult, WorkerInterface
from graphmill.spi.protos import proto
from graphmill_plugins.distributed.wire.methods import WORKER_METHODS
from graphmill_plugins.distributed.wire.status import error_from_code, error_from_rpc
from graphmill_plugins.distributed.wire.tensor_messages import (
    RUN_GRAPH_REQUEST,
    RUN_GRAPH_RESPONSE,
    NamedTensor,
    parse_message,
)
from graphmill_plugins.distributed.worker.grpc_peers import CHANNEL_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.message import Message

    from graphmill.spi.cluster import StepCall

    Done = Callable[[Any, OpError | None], None]
    Withdraw = Callable[[], None]


class GrpcWorker(WorkerInterface):
    """One task's worker.

    Args:
        task: its name, for messages.
        address: `HOST:PORT`.
    """

    def __init__(self, task: str, address: str) -> None:
        self._where = f"of {task} at {address}"
        self._closed_by: OpError | None = None
        self._channel = grpc.insecure_channel(address, CHANNEL_OPTIONS)
        self._methods = {
            name: self._channel.unary_unary(method.path) for name, method in WORKER_METHODS.items()
        }

    def get_status(self, request: proto.GetStatusRequest, done: Done) -> Withdraw:
        """Ask for the devices of the task; one that is about to start is waited for."""
        return self._call("GetStatus", request, done, waits=True)

    def create_worker_session(
        self, request: proto.CreateWorkerSessionRequest, done: Done
    ) -> Withdraw:
        """Begin a session of this master."""
        return self._call("CreateWorkerSession", request, done)

    def delete_worker_session(
        self, request: proto.DeleteWorkerSessionRequest, done: Done
    ) -> Withdraw:
        """Drop a session with its graphs and steps."""
        return self._call("DeleteWorkerSession", request, done)

    def register_graph(self, request: proto.RegisterGraphRequest, done: Done) -> Withdraw:
        """Make the task's part of a graph ready to run."""
        return self._call("RegisterGraph", request, done)

    def deregister_graph(self, request: proto.DeregisterGraphRequest, done: Done) -> Withdraw:
        """Forget a registered graph."""
        return self._call("DeregisterGraph", request, done)

    def run_graph(self, session_handle: str, call: StepCall, done: Done) -> Withdraw:
        """Run the task's part of a step; gives a `StepResult`."""
        message = proto.RunGraphRequest(
            session_handle=session_handle,
            create_worker_session_called=True,
            graph_handle=call.graph_handle,
            step_id=call.step_id,
            recv_key=call.outputs,
            is_partial=call.is_partial,
            is_last_partial_run=call.is_last_partial_run,
            store_errors_in_response_body=True,
            request_id=call.request_id,
        )
        message.exec_opts.record_costs = call.record_costs
        message.exec_opts.record_timeline = call.record_timeline
        message.exec_opts.record_partition_graphs = call.record_partition_graphs
        feeds = [NamedTensor(key, _array(value)) for key, value in call.inputs.items()]
        try:
            data = RUN_GRAPH_REQUEST.encode(message, feeds)
        except OpError as error:
            done(None, error)
            return _nothing
        return self._send("RunGraph", data, _step_result, done)

    def cleanup_graph(self, request: proto.CleanupGraphRequest, done: Done) -> Withdraw:
        """End a step."""
        return self._call("CleanupGraph", request, done)

    def cleanup_all(self, request: proto.CleanupAllRequest, done: Done) -> Withdraw:
        """Clear resource containers."""
        return self._call("CleanupAll", request, done)

    def close(self, reason: OpError | None = None) -> None:
        """End the connection and all calls.

        Args:
            reason: what calls end with, those that follow as well; by default CancelledError.
        """
        self._closed_by = reason
        self._channel.close()

    def _call(self, name: str, request: Message, done: Done, *, waits: bool = False) -> Withdraw:
        response = WORKER_METHODS[name].response
        data = request.SerializeToString()
        return self._send(name, data, lambda answer: parse_message(response, answer), done, waits)

    def _send(
        self,
        name: str,
        data: bytes,
        read: Callable[[bytes], Any],
        done: Done,
        waits: bool = False,
    ) -> Withdraw:
        where = f"{name} {self._where}"
        try:
            future = self._methods[name].future(data, wait_for_ready=waits)
        except ValueError:  # what grpcio raises for a channel that was closed
            closed = CancelledError(f"{where} was not sent: the connection has been closed")
            done(None, self._closed_by or closed)
            return _nothing

        def finished(future: Any) -> None:
            try:
                result = self._outcome(future, read, where)
            except OpError as error:
                done(None, error)
            except Exception as error:  # noqa: BLE001 - the end of a thread: the master must be told
                text = f"{where} failed: {type(error).__name__}: {error}"
                done(None, InternalError(text))
            else:
                done(result, None)

        future.add_done_callback(finished)
        withdraw: Withdraw = future.cancel
        return withdraw

    def _outcome(self, future: Any, read: Callable[[bytes], Any], where: str) -> Any:
        """Return what a call gave.

        Raises:
            OpError: it failed.
        """
        if future.cancelled():
            raise CancelledError(f"{where} was withdrawn")
        if future.code() is grpc.StatusCode.CANCELLED and self._closed_by is not None:
            raise self._closed_by
        if future.code() is not grpc.StatusCode.OK:
            raise error_from_rpc(future, where)
        return read(future.result())


def _step_result(data: bytes) -> StepResult:
    message, tensors = RUN_GRAPH_RESPONSE.decode(data)
    if message.status_code:
        raise error_from_code(message.status_code, message.status_error_message)
    return StepResult(
        {tensor.name: _value(tensor.value) for tensor in tensors},
        message.step_stats if message.HasField("step_stats") else None,
        message.cost_graph if message.HasField("cost_graph") else None,
        list(message.partition_graph),
    )


def _array(value: Any) -> Any:
    """Return a string without dimensions as an array, in which its last bytes are safe."""
    return np.array(value, object) if type(value) is bytes else value


def _value(value: Any) -> Any:
    """Return what a step gives: a value without dimensions is a scalar."""
    return value[()] if isinstance(value, np.ndarray) and not value.ndim else value


def _nothing() -> None:
    """Withdraw a call that was not sent."""
