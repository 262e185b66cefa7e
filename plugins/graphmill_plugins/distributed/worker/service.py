"""`WorkerService`: the calls of masters and of other workers, from bytes to bytes (clause W3).

Semantics: `tensorflow/core/distributed_runtime/rpc/grpc_worker_service.cc`.
"""

from __future__ import annotations

import copy
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import UNAVAILABLE, InternalError, OpError, UnimplementedError
from graphmill.spi.cluster import StepCall, Worker
from graphmill.spi.protos import proto
from graphmill_plugins._server.status import error_message, worker_error_message
from graphmill_plugins.distributed.credentials import credentials_of
from graphmill_plugins.distributed.heartbeat import silence_seconds
from graphmill_plugins.distributed.server.limits import Limits, StepSlots
from graphmill_plugins.distributed.task_addresses import collective_leader
from graphmill_plugins.distributed.transfer.counters import TransferCounters
from graphmill_plugins.distributed.transfer.settings import TransferSettings
from graphmill_plugins.distributed.transfer.tensor_receiver import TensorReceiver
from graphmill_plugins.distributed.transfer.tensor_sender import TensorSender, transfer_request
from graphmill_plugins.distributed.wire.tensor_messages import (
    RUN_GRAPH_REQUEST,
    RUN_GRAPH_RESPONSE,
    NamedTensor,
    parse_message,
)
from graphmill_plugins.distributed.worker.grpc_peers import GrpcPeers
from graphmill_plugins.distributed.worker.rpc_log import RpcLog
from graphmill_plugins.distributed.worker.step_sequences import StepSequences

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from google.protobuf.message import Message

    from graphmill.spi import Host, Value, VariantRegistry
    from graphmill.spi.cluster import DeviceMgr, StepResult
    from graphmill_plugins.distributed.server.dispatch import (
        Behaviour,
        Call,
        Reply,
        Starter,
        Submit,
    )

_MIN_LARGE_BYTES: Final = 64 << 10
"""The size in bytes of a tensor that is serialized in a thread of its own."""

_NOT_HERE: Final = {
    "Tracing": "this worker does not profile its process; request a trace of a step instead "
    "(RunOptions.trace_level)",
    "RecvBuf": "tasks of graphmill exchange the tensors of collectives by RecvTensor, and "
    "TensorFlow's tasks cannot be in a group with them. In a mixed cluster, reduce with variables "
    "on one task (a parameter server, SyncReplicasOptimizer)",
}


class WorkerService:
    """The worker of one task.

    Each behaviour is called in a thread that it may block: RunGraph and RecvTensor wait.

    Args:
        host: where ops, kernels, devices and executors come from.
        devices: those of the server.
        server_def: the cluster, and the default config.
        slots: limit how many steps run at once.

    Attributes:
        worker: executes the calls.
        sender: gives tensors to other tasks.
        transfers: counts the tensors and bytes that were sent and received, by kind of transfer.

    Raises:
        InvalidArgumentError: a setting of the config is unknown or out of range.
    """

    def __init__(
        self,
        host: Host,
        devices: DeviceMgr,
        server_def: proto.ServerDef,
        slots: StepSlots | None = None,
    ) -> None:
        config = server_def.default_session_config
        self._limits = Limits.of(config)
        self._slots = slots or StepSlots(self._limits)
        settings = TransferSettings.of(config)
        self._log = RpcLog()
        self._sequences = StepSequences()
        self._variants = host.variants
        self._receiver = TensorReceiver(settings, host.variants)
        self._may_be_local = settings.local_socket
        self._silence = silence_seconds(config)
        self._credentials = credentials_of(config, is_server=True)
        self.transfers = TransferCounters()
        self._peers = self._new_peers(server_def)
        self._own_peers: list[GrpcPeers] = []
        leader = collective_leader(server_def)
        self.worker = Worker(host, config, devices, self._peers, self._new_own_peers, leader)
        steps = self.worker.rendezvous
        self.sender = TensorSender(settings, host.variants, self.transfers, steps.has_ended)
        steps.on_step_end(self.sender.end_step)

    def behaviours(self) -> dict[str, Behaviour]:
        """Return the implementation of each method of the service, by name."""
        refused = {name: _refusal(name, reason) for name, reason in _NOT_HERE.items()}
        return {
            **refused,
            "GetStatus": self.get_status,
            "CreateWorkerSession": self.create_worker_session,
            "DeleteWorkerSession": self.delete_worker_session,
            "RegisterGraph": self.register_graph,
            "DeregisterGraph": self.deregister_graph,
            "RunGraph": self.run_graph,
            "CleanupGraph": self.cleanup_graph,
            "CleanupAll": self.cleanup_all,
            "RecvTensor": self.recv_tensor,
            "Logging": self.logging,
            "CompleteGroup": self.complete_group,
            "CompleteInstance": self.complete_instance,
            "GetStepSequence": self.get_step_sequence,
            "MarkRecvFinished": self.mark_recv_finished,
        }

    def starters(self) -> dict[str, Starter]:
        """Return implementations of methods that wait without a thread, by name."""
        return {
            "RecvTensor": self.start_recv_tensor,
            "CompleteGroup": self.start_complete_group,
            "CompleteInstance": self.start_complete_instance,
        }

    def get_status(self, data: bytes, call: Call) -> bytes:
        """Return the devices of the task."""
        del call
        parse_message(proto.GetStatusRequest, data)
        response = proto.GetStatusResponse()
        for attributes in self.worker.get_status():
            response.device_attributes.append(attributes.to_proto())
            response.device_attributes[-1].xla_global_id = -1
        return response.SerializeToString()

    def create_worker_session(self, data: bytes, call: Call) -> bytes:
        """Create a master's session."""
        del call
        request = parse_message(proto.CreateWorkerSessionRequest, data)
        self.worker.sessions.create(
            request.session_handle,
            request.server_def,
            isolate_session_state=request.isolate_session_state,
            master_task=request.master_task,
            master_incarnation=request.master_incarnation,
        )
        return b""

    def delete_worker_session(self, data: bytes, call: Call) -> bytes:
        """Drop the graphs and the state of a master's session."""
        del call
        request = parse_message(proto.DeleteWorkerSessionRequest, data)
        self.worker.sessions.delete(request.session_handle)
        return b""

    def register_graph(self, data: bytes, call: Call) -> bytes:
        """Register a master's partition of a graph; return its handle."""
        del call
        request = parse_message(proto.RegisterGraphRequest, data)
        self._limits.check_nodes(request.graph_def)
        handle = self.worker.register_graph(
            request.session_handle,
            request.graph_def,
            was_created=request.create_worker_session_called,
            config=request.config_proto if request.HasField("config_proto") else None,
            graph_options=request.graph_options if request.HasField("graph_options") else None,
            watches=request.debug_options.debug_tensor_watch_opts,
            collective_graph_key=request.collective_graph_key,
        )
        return proto.RegisterGraphResponse(graph_handle=handle).SerializeToString()

    def deregister_graph(self, data: bytes, call: Call) -> bytes:
        """Deregister a graph."""
        del call
        request = parse_message(proto.DeregisterGraphRequest, data)
        self.worker.deregister_graph(
            request.session_handle,
            request.graph_handle,
            was_created=request.create_worker_session_called,
        )
        return b""

    def run_graph(self, data: bytes, call: Call) -> bytes:
        """Run a step, or a piece of one; errors go into the response if requested."""
        message, feeds = RUN_GRAPH_REQUEST.decode(data, self._variants)
        options = message.exec_opts
        if call.fields is not None:
            call.fields |= {
                "session": message.session_handle,
                "graph": message.graph_handle,
                "step_id": message.step_id,
                "request_id": message.request_id,
            }
        step = StepCall(
            message.graph_handle,
            message.step_id,
            {feed.name: feed.value for feed in feeds},
            tuple(message.recv_key[:]),
            record_costs=options.record_costs,
            record_timeline=options.record_timeline,
            record_partition_graphs=options.record_partition_graphs,
            is_partial=message.is_partial,
            is_last_partial_run=message.is_last_partial_run,
            request_id=message.request_id,
        )
        answer = _Answer()
        # The step runs in this thread, which would otherwise only wait for another thread.
        work: list[Callable[[], None]] = []
        try:
            with self._slots:
                withdraw = self.worker.run_graph(
                    message.session_handle,
                    step,
                    answer,
                    was_created=message.create_worker_session_called,
                    drive=work.append,
                )
                (result,) = answer.wait(call, withdraw, *work)
            return _run_graph_response(result, self._variants)
        except OpError as error:
            # A response body cannot mark an error as derived for TensorFlow's masters; but
            # UNAVAILABLE as a status would mean that the request may be sent again.
            by_status = error.is_derived and error.code != UNAVAILABLE
            if by_status or not message.store_errors_in_response_body:
                raise _for_worker(error) from error
            call.code = error.code
            return proto.RunGraphResponse(
                status_code=error.code,  # type: ignore[arg-type]
                status_error_message=worker_error_message(error),
            ).SerializeToString()

    def cleanup_graph(self, data: bytes, call: Call) -> bytes:
        """End a step."""
        del call
        self.worker.cleanup_graph(parse_message(proto.CleanupGraphRequest, data).step_id)
        return b""

    def cleanup_all(self, data: bytes, call: Call) -> bytes:
        """Clear resource containers."""
        del call
        self._limits.check_reset()
        self.worker.cleanup_all(parse_message(proto.CleanupAllRequest, data).container)
        return b""

    def recv_tensor(self, data: bytes, call: Call) -> bytes:
        """Send a tensor of a step, or a piece of one, to another task."""
        request = parse_message(proto.RecvTensorRequest, data)
        if call.fields is not None:
            call.fields |= {"step_id": request.step_id, "key": request.rendezvous_key}
        transfer = None if request.rendezvous_key else transfer_request(request)
        if transfer is not None:
            return self.sender.piece(transfer)
        answer = _Answer()
        withdraw = self.worker.recv_tensor(request.step_id, request.rendezvous_key, answer)
        try:
            value, is_dead = answer.wait(call, withdraw)
        except OpError as error:
            raise _for_worker(error) from error
        return self.sender.answer(request, value, is_dead)

    def start_recv_tensor(self, data: bytes, call: Call, reply: Reply, submit: Submit) -> bool:
        """Send a tensor of a step when it is available, without a waiting thread; see `Starter`."""
        try:
            request = parse_message(proto.RecvTensorRequest, data)
        except OpError as error:
            reply(b"", error)
            return True
        if not request.rendezvous_key:
            return False  # a piece, which is large
        if call.fields is not None:
            call.fields |= {"step_id": request.step_id, "key": request.rendezvous_key}

        def answer(value: Value, is_dead: bool) -> None:
            try:
                response = self.sender.answer(request, value, is_dead)
            except OpError as error:
                reply(b"", error)
            except Exception as error:  # noqa: BLE001 - another task waits for a status
                text = f"RecvTensor failed: {type(error).__name__}: {error}"
                reply(b"", InternalError(text))
            else:
                reply(response, None)

        def done(value: Value, is_dead: bool, error: BaseException | None) -> None:
            if isinstance(error, OpError):
                reply(b"", _for_worker(error))
            elif error is not None:
                reply(b"", InternalError(f"{type(error).__name__}: {error}"))
            elif getattr(value, "nbytes", _MIN_LARGE_BYTES) >= _MIN_LARGE_BYTES:
                submit(answer, value, is_dead)  # this thread must continue its step
            else:
                answer(value, is_dead)

        withdraw = self.worker.recv_tensor(request.step_id, request.rendezvous_key, done)
        if not call.on_end(withdraw):
            withdraw()
        return True

    def complete_group(self, data: bytes, call: Call) -> bytes:
        """Answer with the members of a group of collectives, when all have asked."""
        request = parse_message(proto.CompleteGroupRequest, data)
        return _awaited(partial(self.worker.group_leader.complete_group, request), call)

    def complete_instance(self, data: bytes, call: Call) -> bytes:
        """Answer when all members of a group have joined a collective."""
        request = parse_message(proto.CompleteInstanceRequest, data)
        return _awaited(partial(self.worker.group_leader.complete_instance, request), call)

    def start_complete_group(self, data: bytes, call: Call, reply: Reply, submit: Submit) -> bool:
        """Do the same without a waiting thread; see `Starter`."""
        del submit
        complete = self.worker.group_leader.complete_group
        return _start(proto.CompleteGroupRequest, complete, data, call, reply)

    def start_complete_instance(
        self, data: bytes, call: Call, reply: Reply, submit: Submit
    ) -> bool:
        """Do the same without a waiting thread; see `Starter`."""
        del submit
        complete = self.worker.group_leader.complete_instance
        return _start(proto.CompleteInstanceRequest, complete, data, call, reply)

    def logging(self, data: bytes, call: Call) -> bytes:
        """Turn the log of receives on or off, or return it for some steps."""
        del call
        request = parse_message(proto.LoggingRequest, data)
        return self.worker.logging(request).SerializeToString()

    def get_step_sequence(self, data: bytes, call: Call) -> bytes:
        """Return the ids of the next steps of graphs with a `collective_graph_key`."""
        del call
        request = parse_message(proto.GetStepSequenceRequest, data)
        return self._sequences.get(request).SerializeToString()

    def mark_recv_finished(self, data: bytes, call: Call) -> bytes:
        """Do nothing: no state is stored for tensors that have arrived."""
        del call
        parse_message(proto.MarkRecvFinishedRequest, data)
        return b""

    def update_cluster(self, cluster: proto.ClusterDef, restarted: Collection[str]) -> None:
        """Use new addresses of the other tasks to receive tensors; see `GrpcPeers.update`."""
        self._peers.update(cluster, restarted)

    def close(self) -> None:
        """Cancel all steps, drop all sessions and end all connections."""
        self.worker.close()
        self.sender.close()
        for peers in (self._peers, *self._own_peers):
            peers.close()

    def _new_peers(self, server_def: proto.ServerDef) -> GrpcPeers:
        return GrpcPeers(
            server_def.cluster,
            self._log,
            self._receiver,
            self.transfers,
            self._silence,
            self._credentials,
            may_be_local=self._may_be_local,
        )

    def _new_own_peers(self, server_def: proto.ServerDef) -> GrpcPeers:
        peers = self._new_peers(server_def)
        self._own_peers.append(peers)
        return peers


class _Answer:
    """The outcome of a call, which another thread may set."""

    def __init__(self) -> None:
        self._arrived = threading.Lock()
        self._arrived.acquire()
        self._results: Sequence[Any] = ()
        self._error: BaseException | None = None

    def __call__(self, *outcome: Any) -> None:
        *self._results, self._error = outcome
        self._arrived.release()

    def wait(
        self, call: Call, withdraw: Callable[[], None], *work: Callable[[], None]
    ) -> Sequence[Any]:
        """Wait for the outcome; return the results.

        Args:
            call: the RPC; if it ends first, the work is withdrawn.
            withdraw: withdraws the work.
            work: functions that this thread calls before it waits.

        Raises:
            OpError: the work failed.
        """
        if not call.on_end(withdraw):
            withdraw()
        for task in work:
            task()
        self._arrived.acquire()
        error = self._error
        if isinstance(error, OpError):
            raise error
        if error is not None:
            raise InternalError(f"{type(error).__name__}: {error}") from error
        return self._results


def _awaited(start: Callable[[_Answer], Callable[[], None]], call: Call) -> bytes:
    """Start the work of a call, and wait for its response in this thread.

    Raises:
        OpError: the work failed.
    """
    answer = _Answer()
    withdraw = start(answer)
    try:
        (response,) = answer.wait(call, withdraw)
    except OpError as error:
        raise _for_worker(error) from error
    data: bytes = response.SerializeToString()
    return data


def _start(
    kind: type[Message],
    start: Callable[..., Callable[[], None]],
    data: bytes,
    call: Call,
    reply: Reply,
) -> bool:
    """Start the work of a call, which replies later."""
    try:
        request = parse_message(kind, data)
    except OpError as error:
        reply(b"", error)
        return True

    def done(response: Any, error: OpError | None) -> None:
        if error is not None:
            reply(b"", _for_worker(error))
        else:
            reply(response.SerializeToString(), None)

    withdraw = start(request, done)
    if not call.on_end(withdraw):
        withdraw()
    return True


def _run_graph_response(result: StepResult, variants: VariantRegistry) -> bytes:
    response = proto.RunGraphResponse(
        step_stats=result.step_stats,
        cost_graph=result.cost_graph,
        partition_graph=result.partition_graphs,
    )
    outputs = [NamedTensor(key, value) for key, value in result.outputs.items()]
    return RUN_GRAPH_RESPONSE.encode(response, outputs, variants)


def _for_worker(error: OpError) -> OpError:
    """Return an error whose text names the node of its root cause.

    Where it reaches a client first, it is all that the client learns.
    """
    copied, described = copy.copy(error), copy.copy(error)
    cause = error.__cause__
    if error.is_derived and isinstance(cause, OpError):
        described.node, described.op_type, described.device = (
            cause.node,
            cause.op_type,
            cause.device,
        )
    copied.message = error_message(described)
    copied.node = copied.op_type = copied.device = copied.plugin = None  # they are in the text
    return copied


def _refusal(name: str, reason: str) -> Behaviour:
    def refuse(data: bytes, call: Call) -> bytes:
        del data, call
        raise UnimplementedError(f"{name} is not implemented: {reason}")

    return refuse
