"""`Worker`: the calls of a worker service, independent of the protocol (clause W3).

Semantics: `tensorflow/core/distributed_runtime/worker.cc`. A call that may block returns
immediately: it passes its outcome to a function, and returns a function that cancels it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill import proto
from graphmill.distributed.worker.group_collectives import GroupCollectives
from graphmill.distributed.worker.group_leader import GroupLeader
from graphmill.distributed.worker.partial_steps import PartialStep, PartialSteps
from graphmill.distributed.worker.registered_graph import GraphRegistration
from graphmill.distributed.worker.rendezvous_mgr import RendezvousMgr
from graphmill.distributed.worker.requests import RecentRequests
from graphmill.distributed.worker.step import WorkerStep, receive_outputs, send_inputs
from graphmill.distributed.worker.worker_session import WorkerSessionMgr
from graphmill.errors import (
    AbortedError,
    CancelledError,
    InternalError,
    InvalidArgumentError,
    OpError,
)
from graphmill.graph.device_name import task_of
from graphmill.lowering.policies.effects_policy import policy_of, server_policy_of
from graphmill.runtime.steps.cancellation import CancellationManager
from graphmill.runtime.threads.driver_threads import DriverThreads
from graphmill.session.thread_pools import ThreadPools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from graphmill.distributed.worker.peers import Peers
    from graphmill.distributed.worker.registered_graph import RegisteredGraph
    from graphmill.distributed.worker.remote_rendezvous import RemoteRendezvous
    from graphmill.distributed.worker.requests import Request
    from graphmill.distributed.worker.step_call import StepCall, StepResult
    from graphmill.distributed.worker.worker_session import WorkerSession
    from graphmill.plugin.host import Host
    from graphmill.proto.config_pb2 import ConfigProto
    from graphmill.proto.tensorflow_server_pb2 import ServerDef
    from graphmill.runtime.devices.device import DeviceAttributes
    from graphmill.runtime.devices.device_mgr import DeviceMgr
    from graphmill.runtime.rendezvous import ReceiveDone
    from graphmill.typing import Value

    StepDone = Callable[[StepResult | None, OpError | None], None]
    Drive = Callable[[Callable[[], None]], None]


class Worker:
    """One task's worker: devices, sessions of masters, their graphs and steps.

    Args:
        host: where ops, kernels, devices and executors come from.
        config: that of the server; the default where masters set nothing. Its forbidden effects and
            rules apply to all graphs; without rules, they run under the policy *pure*.
        devices: the task's devices, which the worker does not close.
        peers: the other tasks of the server's cluster.
        new_peers: creates the peers for a session with a cluster of its own.
        group_leader: the task that leads the groups of collectives with members in several
            sessions; by default this one.

    Threads: any number may call anything.

    Attributes:
        devices: the task's devices.
        rendezvous: the rendezvous of its steps.
        sessions: the sessions of its masters.
        group_leader: leads groups of collectives, if this task is their leader.
        num_steps: the number of steps; a statistic.
    """

    def __init__(
        self,
        host: Host,
        config: ConfigProto,
        devices: DeviceMgr,
        peers: Peers,
        new_peers: Callable[[ServerDef], Peers],
        group_leader: str = "",
    ) -> None:
        self.devices = devices
        self.task = task_of(devices.host.name)
        self.rendezvous = RendezvousMgr(devices)
        self.sessions = WorkerSessionMgr(self.task, host, config, devices, peers, new_peers)
        self.group_leader = GroupLeader(self.task, peers)
        self._groups = GroupCollectives(
            self.group_leader, group_leader or self.task, devices, self.rendezvous
        )
        self.num_steps = 0
        self._peers = peers
        self._config = config
        self._effects = server_policy_of(config)
        self._pools = ThreadPools(config, host)
        self._drivers = DriverThreads("graphmill-worker")
        self._requests: RecentRequests[StepResult] = RecentRequests()
        self._partial = PartialSteps()

    def get_status(self) -> list[DeviceAttributes]:
        """Return the attributes of the task's devices."""
        return [device.attributes for device in self.devices]

    def register_graph(
        self,
        session_handle: str,
        graph_def: proto.GraphDef,
        *,
        was_created: bool,
        config: ConfigProto | None = None,
        graph_options: proto.GraphOptions | None = None,
        watches: Iterable[Any] = (),
        collective_graph_key: int = 0,
    ) -> str:
        """Register a master's partition of a graph; return its handle.

        Args:
            session_handle: the master's session.
            graph_def: the graph, placed, rewritten and partitioned by task.
            was_created: whether the master creates sessions on its workers.
            config: the session's configuration.
            graph_options: the options of this graph.
            watches: the `DebugTensorWatch`es.
            collective_graph_key: groups the collectives of its steps.

        Raises:
            AbortedError: the session is not, or no longer, known here.
            OpError: the graph cannot be run; see `RegisteredGraph`.
        """
        session = self.sessions.find(session_handle, was_created=was_created)
        whole = self._whole_config(config, graph_options)
        effects = policy_of(whole).within(self._effects)
        registration = GraphRegistration(
            session_handle, graph_def, whole, tuple(watches), collective_graph_key
        )
        return session.graphs.register(registration, effects)

    def deregister_graph(
        self, session_handle: str, graph_handle: str, *, was_created: bool
    ) -> None:
        """Deregister a graph; it is closed when its last step has ended.

        Raises:
            AbortedError: the session or the graph is not, or no longer, known here.
        """
        session = self.sessions.find(session_handle, was_created=was_created)
        session.graphs.deregister(graph_handle)

    def run_graph(
        self,
        session_handle: str,
        call: StepCall,
        done: StepDone,
        *,
        was_created: bool,
        drive: Drive | None = None,
    ) -> Callable[[], None]:
        """Run a step, or a piece of one; return a function that cancels the call.

        A repeated request gets the outcome of the first one. The step is cancelled when all its
        callers have cancelled.

        Args:
            session_handle: the master's session.
            call: the call.
            done: receives the result or the error, once, in any thread, perhaps before this
                returns.
            was_created: whether the master creates sessions on its workers.
            drive: calls a function in a thread that may block, in which the step then runs; None
                for a thread of the worker.
        """
        try:
            request, is_new = self._requests.enter(call.request_id, done)
        except OpError as error:
            done(None, error)
            return _nothing
        if is_new:
            try:
                session = self.sessions.find(session_handle, was_created=was_created)
                self._start(session, call, request, drive or self._drivers.submit)
            except OpError as error:
                request.finish(None, error)
            except Exception as error:  # noqa: BLE001 - callers, repeated ones too, wait for an outcome
                message = f"the step was not started: {type(error).__name__}: {error}"
                request.finish(None, InternalError(message))
        return lambda: request.leave(done)

    def cleanup_graph(self, step_id: int) -> None:
        """End a step: abort all pending and later receives of its tensors."""
        self.rendezvous.cleanup(step_id)
        partial = self._partial.drop(step_id)
        if partial is not None:
            partial.cancellation.start_cancel(AbortedError(f"step {step_id} was cleaned up"))

    def cleanup_all(self, containers: Iterable[str]) -> None:
        """Clear resource containers; no name means the default container."""
        names = list(containers)
        self.devices.clear_containers(names)
        for session in self.sessions.sessions():
            if session.is_isolated:
                session.devices.clear_containers(names)

    def recv_tensor(self, step_id: int, key: str, done: ReceiveDone) -> Callable[[], None]:
        """Receive a tensor for another task; return a function that cancels the call.

        Args:
            step_id: id of the step, which may not have started here.
            key: the rendezvous key.
            done: receives the value in host memory, whether it is dead, or the error; called once,
                in any thread, perhaps before this returns.
        """
        cancellation = CancellationManager()
        try:
            self.rendezvous.recv_local_async(step_id, key, done, cancellation)
        except OpError as error:
            done(None, False, error)
        return cancellation.start_cancel

    def logging(self, request: proto.LoggingRequest) -> proto.LoggingResponse:
        """Turn the log of receives from other tasks on or off, or return it."""
        return self._peers.logging(request)

    def close(self) -> None:
        """Cancel all steps, abort all receives, and drop all sessions."""
        self.sessions.close()
        self.group_leader.close()
        self.rendezvous.cleanup_all()
        self._drivers.close()
        self._pools.close()

    def _start(
        self, session: WorkerSession, call: StepCall, request: Request[StepResult], drive: Drive
    ) -> None:
        if call.is_partial:
            self._start_piece(session, call, request)
            return
        graph = session.graphs.acquire(call.graph_handle)
        cancellation = CancellationManager(session.cancellation)
        try:
            step = self._new_step(session, graph, call, cancellation)
        except BaseException:
            cancellation.close()
            graph.release()
            raise
        request.cancel = cancellation.start_cancel
        drive(lambda: self._run(step, graph, call, cancellation, request))

    def _run(
        self,
        step: WorkerStep,
        graph: RegisteredGraph,
        call: StepCall,
        cancellation: CancellationManager,
        request: Request[StepResult],
    ) -> None:
        """Run a complete step, in its driver's thread."""
        result: StepResult | None = None
        failure: OpError | None = None
        try:
            send_inputs(self.rendezvous.find(call.step_id), call)
            step.run()
            result = step.result(self._outputs(call))
        except OpError as error:
            failure = error
        except Exception as error:  # noqa: BLE001 - the end of a thread: it is passed to the caller
            failure = InternalError(f"the step failed: {type(error).__name__}: {error}")
        cancellation.close()
        graph.release()
        request.finish(result, failure, 0 if result is None else result.num_bytes)

    def _outputs(self, call: StepCall) -> dict[str, Value]:
        """Return the values that the step has sent to its master.

        Raises:
            OpError: a value is dead, or was not sent.
        """
        outcome: list[tuple[dict[str, Value], OpError | None]] = []
        waiting = CancellationManager()
        receive_outputs(
            self.rendezvous.find(call.step_id),
            call.outputs,
            waiting,
            lambda values, error: outcome.append((values, error)),
        )
        if not outcome:  # all that is sent at all is there by now
            waiting.start_cancel()
            raise InvalidArgumentError(
                f"graph {call.graph_handle} ended without sending a value for one of the fetched "
                f"keys: {', '.join(call.outputs)}"
            )
        values, error = outcome[0]
        if error is not None:
            raise error
        return values

    def _start_piece(
        self, session: WorkerSession, call: StepCall, request: Request[StepResult]
    ) -> None:
        """Feed a partial run and wait for the fetches of this call; the first call starts it."""
        partial, is_new = self._partial.find_or_create(
            call.step_id, lambda: self._new_partial(session, call)
        )
        request.cancel = partial.cancellation.start_cancel
        rendezvous = self.rendezvous.find(call.step_id)
        if is_new:
            self._drive_partial(partial, rendezvous)
        send_inputs(rendezvous, call)

        def received(values: dict[str, Value], error: OpError | None) -> None:
            if error is not None or not call.is_last_partial_run:
                answer(values, partial.error or error)
            else:
                partial.when_ended(lambda failure: answer(values, failure))

        def answer(values: dict[str, Value], error: OpError | None) -> None:
            if error is not None or call.is_last_partial_run:
                self._partial.drop(call.step_id)
            result = None if error is not None else partial.step.result(values)
            request.finish(result, error, 0 if result is None else result.num_bytes)

        receive_outputs(rendezvous, call.outputs, partial.cancellation, received)

    def _new_partial(self, session: WorkerSession, call: StepCall) -> PartialStep:
        graph = session.graphs.acquire(call.graph_handle)
        cancellation = CancellationManager(session.cancellation)
        try:
            step = self._new_step(session, graph, call, cancellation)
        except BaseException:
            cancellation.close()
            graph.release()
            raise
        partial_step = PartialStep(step, cancellation)
        partial_step.when_ended(lambda _: graph.release())
        return partial_step

    def _drive_partial(self, partial: PartialStep, rendezvous: RemoteRendezvous) -> None:
        def drive() -> None:
            failure: OpError | None = None
            try:
                partial.step.run()
            except OpError as error:
                failure = error
            except Exception as error:  # noqa: BLE001 - the end of a thread: it is passed to the callers
                failure = InternalError(f"the step failed: {type(error).__name__}: {error}")
            if failure is not None:
                rendezvous.start_abort(failure)  # the step may have failed before its executors
            partial.ended(failure)
            partial.cancellation.close()

        self._drivers.submit(drive)

    def _new_step(
        self,
        session: WorkerSession,
        graph: RegisteredGraph,
        call: StepCall,
        cancellation: CancellationManager,
    ) -> WorkerStep:
        if cancellation.is_cancelled:
            raise cancellation.reason or CancelledError("Call was aborted")
        if graph.collective_graph_key:
            self.rendezvous.allow_repeat(call.step_id)
        rendezvous = self.rendezvous.find(call.step_id)
        rendezvous.initialize(
            call.step_id, session.device_names, session.peers, is_partial=call.is_partial
        )
        self.num_steps += 1
        return WorkerStep(
            session, graph, call, rendezvous, cancellation, self._pools.default, self._groups
        )

    def _whole_config(
        self, config: ConfigProto | None, graph_options: proto.GraphOptions | None
    ) -> ConfigProto:
        """Return the configuration of a graph: the master's, else the server's."""
        whole = proto.ConfigProto()
        if config is None:
            whole.CopyFrom(self._config)
        else:
            whole.CopyFrom(config)
        if not whole.HasField("graphmill"):
            whole.graphmill.CopyFrom(self._config.graphmill)
        if graph_options is not None:
            whole.graph_options.CopyFrom(graph_options)
        return whole


def _nothing() -> None:
    """Do nothing: the call has ended."""
