"""`GrpcWorker`: call a task's worker service over gRPC.

Semantics: `tensorflow/core/distributed_runtime/rpc/grpc_remote_worker.cc`. The worker may be
TensorFlow's.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InternalError, OpError
from graphmill.spi.cluster import StepResult, WorkerInterface
from graphmill.spi.protos import proto
from graphmill_plugins._server.status import error_from_code
from graphmill_plugins.distributed.connection import Connection
from graphmill_plugins.distributed.heartbeat import DEFAULT_SECONDS
from graphmill_plugins.distributed.wire.methods import WORKER_METHODS
from graphmill_plugins.distributed.wire.tensor_messages import (
    RUN_GRAPH_REQUEST,
    RUN_GRAPH_RESPONSE,
    NamedTensor,
    parse_message,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.message import Message

    from graphmill.spi import VariantRegistry
    from graphmill.spi.cluster import StepCall
    from graphmill_plugins.distributed.credentials import Credentials

    Done = Callable[[Any, OpError | None], None]
    Withdraw = Callable[[], None]


class GrpcWorker(WorkerInterface):
    """One task's worker.

    Args:
        task: its name, for messages.
        address: `HOST:PORT`.
        variants: the codecs of variants.
        silence: the number of seconds for which it may be silent while calls are in flight; 0 for
            no limit.
        credentials: for TLS; None for connections without TLS.
        may_be_local: whether calls may go over a local socket; see `Connection`.
    """

    def __init__(
        self,
        task: str,
        address: str,
        variants: VariantRegistry,
        silence: float = DEFAULT_SECONDS,
        credentials: Credentials | None = None,
        *,
        may_be_local: bool = False,
    ) -> None:
        self._variants = variants
        self._connection = Connection(
            f"{task} at {address}",
            address,
            WORKER_METHODS.values(),
            silence,
            credentials=credentials,
            may_be_local=may_be_local,
        )

    @property
    def last_heartbeat(self) -> float | None:
        """The time of the last message from the task, by `time.time`; None for none."""
        return self._connection.last_heartbeat

    def get_status(self, request: proto.GetStatusRequest, done: Done) -> Withdraw:
        """Request the devices of the task; wait if it is still starting."""
        return self._call("GetStatus", request, done, waits=True)

    def create_worker_session(
        self, request: proto.CreateWorkerSessionRequest, done: Done
    ) -> Withdraw:
        """Create a session of this master."""
        return self._call("CreateWorkerSession", request, done)

    def delete_worker_session(
        self, request: proto.DeleteWorkerSessionRequest, done: Done
    ) -> Withdraw:
        """Drop a session with its graphs and steps."""
        return self._call("DeleteWorkerSession", request, done)

    def register_graph(self, request: proto.RegisterGraphRequest, done: Done) -> Withdraw:
        """Register the task's partition of a graph."""
        return self._call("RegisterGraph", request, done)

    def deregister_graph(self, request: proto.DeregisterGraphRequest, done: Done) -> Withdraw:
        """Deregister a graph."""
        return self._call("DeregisterGraph", request, done)

    def run_graph(self, session_handle: str, call: StepCall, done: Done) -> Withdraw:
        """Run the task's partition of a step; the outcome is a `StepResult`."""
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
            data = RUN_GRAPH_REQUEST.encode(message, feeds, self._variants)
        except OpError as error:
            done(None, error)
            return _nothing
        return self._send("RunGraph", data, partial(_step_result, self._variants), done)

    def logging(self, request: proto.LoggingRequest, done: Done) -> Withdraw:
        """Switch the task's log of receives, or request it."""
        return self._call("Logging", request, done)

    def cleanup_graph(self, request: proto.CleanupGraphRequest, done: Done) -> Withdraw:
        """End a step."""
        return self._call("CleanupGraph", request, done)

    def cleanup_all(self, request: proto.CleanupAllRequest, done: Done) -> Withdraw:
        """Clear resource containers."""
        return self._call("CleanupAll", request, done)

    def close(self, reason: OpError | None = None) -> None:
        """Close the connection and fail all calls.

        Args:
            reason: the error of calls, including later ones; by default CancelledError.
        """
        self._connection.close(reason)

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
        def finished(answer: bytes | None, error: OpError | None) -> None:
            if answer is None:
                done(None, error)
                return
            try:
                result = read(answer)
            except OpError as failure:
                done(None, failure)
            except Exception as failure:  # noqa: BLE001 - the end of a thread: it is passed to the master
                where = f"{name} of {self._connection.name}"
                text = f"{where} failed: {type(failure).__name__}: {failure}"
                done(None, InternalError(text))
            else:
                done(result, None)

        # With `waits`, the task may not have started yet, so its silence is no failure.
        return self._connection.start(name, data, finished, waits=waits, is_watched=not waits)


def _step_result(variants: VariantRegistry, data: bytes) -> StepResult:
    message, tensors = RUN_GRAPH_RESPONSE.decode(data, variants)
    if message.status_code:
        raise error_from_code(message.status_code, message.status_error_message)
    return StepResult(
        {tensor.name: _value(tensor.value) for tensor in tensors},
        message.step_stats if message.HasField("step_stats") else None,
        message.cost_graph if message.HasField("cost_graph") else None,
        list(message.partition_graph),
    )


def _array(value: Any) -> Any:
    """Return a scalar string as an array, which keeps trailing zero bytes."""
    return np.array(value, object) if type(value) is bytes else value


def _value(value: Any) -> Any:
    """Convert an output of a step: an array of rank 0 becomes a scalar."""
    return value[()] if isinstance(value, np.ndarray) and not value.ndim else value


def _nothing() -> None:
    """Do nothing: the call was not sent."""
