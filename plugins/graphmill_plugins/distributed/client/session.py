"""`GrpcSession`: a session whose graph a master runs (clauses W0, W1).

Semantics: `tensorflow/core/distributed_runtime/rpc/grpc_session.cc`.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import (
    AbortedError,
    DeadlineExceededError,
    InvalidArgumentError,
    OpError,
    UnavailableError,
)
from graphmill.spi import DeviceAttributes
from graphmill.spi.cluster import SessionInterface, copy_message
from graphmill.spi.protos import proto
from graphmill_plugins._server.status import error_from_code, in_context

from ..wire.tensor_messages import (
    RUN_STEP_REQUEST,
    RUN_STEP_RESPONSE,
    NamedTensor,
    parse_message,
)
from .callables import Callables, options_of_callable
from .channel import MasterChannel
from .client_graph import ClientGraph
from .partial_runs import PartialRun, PartialRuns
from .reset import reset
from .step import StepPlan, new_request_id, results_by_name, step_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from google.protobuf.message import Message

    from graphmill.spi import Graph, Host, Value
    from graphmill.spi.cluster import Signature
    from graphmill.spi.files import AccessRules
    from graphmill.spi.protos import GraphDef

_LOG: Final = logging.getLogger("graphmill.distributed")

_CREATE_SECONDS: Final = 120.0
"""The default timeout of a call in seconds; a master waits for its workers indefinitely."""

_CLOSE_SECONDS: Final = 10.0
"""Seconds that `close` waits for a master that does not respond."""

_MAX_CACHED_PLANS: Final = 1024


class GrpcSession(SessionInterface):
    """Sends the graph and the steps of one session to a master.

    Threads: any number may call anything; `_lock` is held while the graph is sent.

    Args:
        target: `grpc://HOST:PORT`.
        config: sent to the master.
        host: where the ops of the graph are looked up.

    Raises:
        InvalidArgumentError: the target is malformed.

    Attributes:
        target: the master.
        handle: the handle of the session on the master; "" before its first run.
    """

    def __init__(self, target: str, config: proto.ConfigProto, host: Host) -> None:
        self.host = host
        self.config = config
        self.is_closed = False
        self.target = target
        self.handle = ""
        self._channel = MasterChannel(target, config)
        self._graph = ClientGraph(host.ops)
        self._lock = threading.Lock()
        self._version = 0
        self._plans: dict[Signature, StepPlan] = {}
        self._callables = Callables(self)
        self._partial_runs = PartialRuns()

    @property
    def graph(self) -> Graph:
        """The session's full graph; do not change it."""
        return self._graph.graph

    def extend(
        self,
        graph_def: GraphDef,
        large_tensors: Mapping[tuple[str, str, str], Any] | None = None,
    ) -> None:
        """Add the nodes of a GraphDef; they are sent before the next run.

        Raises:
            OpError: the graph is malformed, or a name is taken.
        """
        self.check_open()
        self._graph.extend(graph_def, large_tensors)

    def follow(self, source: Graph, num_taken: int = 0) -> None:
        """Add the nodes of a graph object, now and whenever it has grown."""
        self._graph.follow(source, num_taken)

    def sync_graph(self) -> None:
        """Add the nodes that the followed graph object has gained."""
        self._graph.sync()

    def run(
        self,
        signature: Signature,
        values: Sequence[Any],
        options: proto.RunOptions | None,
        run_metadata: proto.RunMetadata | None,
    ) -> list[Value]:
        """Run one step; see `SessionInterface.run`."""
        plan = self._plan(signature)
        feeds = plan.tensors(values)
        self._send_graph()
        request = step_request(self.handle, plan.fetches, plan.targets, options)
        return plan.in_order(self._run_step(request, feeds, plan.fetches, options, run_metadata))

    def make_callable(
        self,
        signature: Signature,
        rebuild: Callable[[list[Value]], Any],
        options: proto.RunOptions | None,
        callable_options: proto.CallableOptions | None = None,
    ) -> Callable[..., Any]:
        """Return a function that runs a signature; see `SessionInterface.make_callable`."""
        plan = self._plan(signature)
        self._send_graph()
        self._callables.release_dropped()
        all_options = options_of_callable(signature, options, callable_options, plan.fetches)
        return self._callables.make(plan, rebuild, all_options)

    def partial_run_setup(self, signature: Signature, options: proto.RunOptions | None) -> str:
        """Begin a run that is fed and fetched piece by piece; return its handle."""
        self._send_graph()
        feeds, fetches, targets = signature
        request = proto.PartialRunSetupRequest(
            session_handle=self.handle,
            feed=feeds,
            fetch=fetches,
            target=targets,
            request_id=new_request_id(),
        )
        data = self.call("PartialRunSetup", request, self.timeout(options))
        handle: str = parse_message(proto.PartialRunSetupResponse, data).partial_run_handle
        self._partial_runs.add(handle, PartialRun(signature, options))
        return handle

    def partial_run(
        self,
        handle: str,
        fetches: Sequence[str],
        feeds: Mapping[str, Any],
        run_metadata: proto.RunMetadata | None,
    ) -> list[Value]:
        """Run one piece of a partial run; see `SessionInterface.partial_run`."""
        options = self._partial_runs.get(handle).options
        plan = self._plan((tuple(feeds), tuple(fetches), ()))
        request = step_request(self.handle, plan.fetches, (), options)
        request.partial_run_handle = handle
        tensors = plan.tensors(list(feeds.values()))
        try:
            results = self._run_step(request, tensors, plan.fetches, options, run_metadata)
        except InvalidArgumentError as error:
            if error.node is not None:  # of a node, not of this call
                self._partial_runs.remove(handle)
            raise
        except OpError:
            self._partial_runs.remove(handle)
            raise
        self._partial_runs.advance(handle, feeds, fetches)
        return plan.in_order(results)

    def partial_run_release(self, handle: str) -> None:
        """End a partial run that will not be finished.

        The protocol has no call for it: the master frees it when the session is closed.

        Raises:
            InvalidArgumentError: the handle is unknown or finished.
        """
        self._partial_runs.get(handle)
        self._partial_runs.remove(handle)

    def list_devices(self) -> list[DeviceAttributes]:
        """Return name, type, memory limit and incarnation of each device of the master."""
        self._send_graph()
        request = proto.ListDevicesRequest(session_handle=self.handle)
        data = self.call("ListDevices", request, self.timeout(None))
        response = parse_message(proto.ListDevicesResponse, data)
        return [
            DeviceAttributes(
                name=device.name,
                device_type=device.device_type,
                memory_limit=device.memory_limit,
                incarnation=device.incarnation,
                physical_device_desc=device.physical_device_desc,
            )
            for device in (*response.local_device, *response.remote_device)
        ]

    def reset(self, containers: Iterable[str]) -> None:
        """Clear resource containers on the master's workers; this closes all its sessions."""
        reset(self._channel, containers, self.config)

    def allowing(self, rules: AccessRules) -> AbstractContextManager[None]:
        """Return a context without effect: the server decides what is allowed."""
        del rules
        return contextlib.nullcontext()

    def loading_a_model(self) -> AbstractContextManager[None]:
        """Return a context without effect: the server decides which effects are forbidden."""
        return contextlib.nullcontext()

    def close(self) -> None:
        """Make the master cancel running steps and free everything; a second call does nothing.

        A master that does not answer in time, or is down, is logged.

        Raises:
            OpError: the master refuses.
        """
        with self._lock:
            if self.is_closed:
                return
            self.is_closed = True
        try:
            if self.handle:
                self._close_session()
        except (AbortedError, DeadlineExceededError, UnavailableError) as error:
            _LOG.warning("the session was not closed on its master: %s", error)
        finally:
            self._channel.close()

    def call(self, method: str, request: Message, timeout: float | None) -> bytes:
        """Call a method of the master; return its response.

        Raises:
            OpError: the call failed.
        """
        return self.call_with_bytes(method, request.SerializeToString(), timeout)

    def call_with_bytes(self, method: str, request: bytes, timeout: float | None) -> bytes:
        """Call a method of the master with a serialized request; return its response.

        Raises:
            OpError: the call failed.
        """
        try:
            return self._channel.call(method, request, timeout)
        except OpError as error:
            self._graph.set_operation(error, self.graph_object)
            raise

    def timeout(self, options: proto.RunOptions | None) -> float | None:
        """Return the timeout of a step in seconds; None for none."""
        in_ms = options.timeout_in_ms if options is not None else 0
        return (in_ms or self.config.operation_timeout_in_ms) / 1000 or None

    def _close_session(self) -> None:
        request = proto.CloseSessionRequest(session_handle=self.handle)
        timeout = min(self.timeout(None) or _CLOSE_SECONDS, _CLOSE_SECONDS)
        self.call("CloseSession", request, timeout)

    def _run_step(
        self,
        request: proto.RunStepRequest,
        feeds: Sequence[NamedTensor],
        fetches: Sequence[str],
        options: proto.RunOptions | None,
        run_metadata: proto.RunMetadata | None,
    ) -> dict[str, Value]:
        data = RUN_STEP_REQUEST.encode(request, feeds, self.host.variants)
        data = self.call_with_bytes("RunStep", data, self.timeout(options))
        response, tensors = RUN_STEP_RESPONSE.decode(data, self.host.variants)
        if response.status_code:
            error = error_from_code(response.status_code, response.status_error_message)
            error = in_context(error, f"RunStep at {self.target}")
            self._graph.set_operation(error, self.graph_object)
            raise error
        if run_metadata is not None:
            copy_message(response.metadata, run_metadata)
        return results_by_name(fetches, tensors)

    def _plan(self, signature: Signature) -> StepPlan:
        plan = self._plans.get(signature)
        if plan is None:
            if len(self._plans) >= _MAX_CACHED_PLANS:
                self._plans.clear()
            plan = self._plans[signature] = StepPlan(signature, self._graph)
        return plan

    def _send_graph(self) -> None:
        """Create the session on the master, or extend its graph, if there are unsent nodes."""
        if self.handle and not self._graph.has_grown:
            return
        with self._lock:
            self.check_open()
            graph_def, mark_sent = self._graph.unsent()
            if not self.handle:
                self._create(graph_def)
            elif self._graph.has_grown:
                self._extend(graph_def)
            mark_sent()

    def _create(self, graph_def: GraphDef) -> None:
        request = proto.CreateSessionRequest(
            graph_def=graph_def, config=self.config, target=self.target
        )
        data = self.call("CreateSession", request, self.timeout(None) or _CREATE_SECONDS)
        response = parse_message(proto.CreateSessionResponse, data)
        self._version = response.graph_version
        self.handle = response.session_handle

    def _extend(self, graph_def: GraphDef) -> None:
        request = proto.ExtendSessionRequest(
            session_handle=self.handle,
            graph_def=graph_def,
            current_graph_version=self._version,
        )
        data = self.call("ExtendSession", request, self.timeout(None))
        self._version = parse_message(proto.ExtendSessionResponse, data).new_graph_version
