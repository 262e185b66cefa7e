"""`MasterService`: serve the calls of clients, from request bytes to response bytes (W2).

Semantics: `tensorflow/core/distributed_runtime/master.cc`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError, OpError
from graphmill.spi import plugin_settings
from graphmill.spi.cluster import (
    ClusterSession,
    ClusterTasks,
    DeviceMgr,
    DirectSession,
    create_devices,
    policy_of,
    server_policy_of,
)
from graphmill.spi.protos import proto
from graphmill_plugins._server.event_log import log_event
from graphmill_plugins._server.status import error_message
from graphmill_plugins.distributed.master.master_session import (
    MasterSession,
    asks_for_metadata,
    fetched_tensor,
    options_of,
)
from graphmill_plugins.distributed.master.session_table import SessionTable
from graphmill_plugins.distributed.server.limits import Limits, StepSlots, count_nodes
from graphmill_plugins.distributed.wire.tensor_messages import (
    RUN_CALLABLE_REQUEST,
    RUN_CALLABLE_RESPONSE,
    RUN_STEP_REQUEST,
    RUN_STEP_RESPONSE,
    parse_message,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import DeviceAttributes, Host
    from graphmill.spi.cluster import ExecutorsAndKeys
    from graphmill_plugins.distributed.master.cluster_workers import ClusterWorkers
    from graphmill_plugins.distributed.master.request_memory import Request
    from graphmill_plugins.distributed.server.dispatch import Behaviour, Call
    from graphmill_plugins.distributed.wire.tensor_messages import NamedTensor

_log = logging.getLogger("graphmill.server.master")
_NO_RUN = proto.RunStepResponse()
_CONTROL_SECONDS = 30.0
"""The default time in seconds to wait for a task that does not respond."""


class MasterService:
    """The master of a task; its sessions run on the devices of all tasks.

    Sessions share the devices, and so the variables, queues and tables that live there; one whose
    config says `isolate_session_state` has devices of its own. Where the task is alone, its
    sessions are sessions of the process over the server's devices.

    Args:
        host: where ops, kernels, devices and executors come from.
        devices: the devices of the server.
        default_config: the config into which that of each session is merged.
        name_prefix: job, replica and task of the devices.
        cluster: the workers of all tasks; closed by whoever made it.
        limits: the limits for clients; by default those of the config.
        slots: limit how many steps run at once.

    Raises:
        InvalidArgumentError: the settings of the plugin `distributed` in the config are malformed.

    Threads: any number of calls at once.
    """

    def __init__(
        self,
        host: Host,
        devices: DeviceMgr,
        default_config: proto.ConfigProto,
        name_prefix: str,
        cluster: ClusterWorkers | None = None,
        limits: Limits | None = None,
        slots: StepSlots | None = None,
    ) -> None:
        self._host = host
        self._devices = devices
        self._default_config = default_config
        self._name_prefix = name_prefix
        self._cluster = cluster if cluster is not None and cluster.has_others else None
        self._sessions = SessionTable(_idle_seconds(default_config))
        self._limits = limits or Limits.of(default_config)
        self._slots = slots or StepSlots(self._limits)

    @property
    def sessions(self) -> SessionTable:
        """The open sessions."""
        return self._sessions

    def cached_executors(self) -> list[ExecutorsAndKeys]:
        """Return the executors of sessions that run in this process alone."""
        sessions = [one.session for one in self._sessions.all()]
        direct = [one for one in sessions if isinstance(one, DirectSession)]
        return [executors for one in direct for executors in one.cached_executors()]

    def behaviours(self) -> dict[str, Behaviour]:
        """Return the implementation of each method of the service, by name."""
        return {
            "CreateSession": self.create_session,
            "ExtendSession": self.extend_session,
            "PartialRunSetup": self.partial_run_setup,
            "RunStep": self.run_step,
            "CloseSession": self.close_session,
            "ListDevices": self.list_devices,
            "Reset": self.reset,
            "MakeCallable": self.make_callable,
            "RunCallable": self.run_callable,
            "ReleaseCallable": self.release_callable,
        }

    def create_session(self, data: bytes, call: Call) -> bytes:
        """Create a session with a graph; return its handle and the graph's version.

        Raises:
            OpError: the config or the graph is malformed, or a task of the cluster is away.
        """
        del call
        request = parse_message(proto.CreateSessionRequest, data)
        self._limits.check_sessions(len(self._sessions))
        self._limits.check_nodes(request.graph_def)
        config = proto.ConfigProto()
        config.CopyFrom(self._default_config)
        config.MergeFrom(request.config)
        _take_policy(config, request.config)
        config.experimental.optimize_for_static_graph = False  # clients extend their graphs
        session = self._new_session(config)
        try:
            session.session.extend(request.graph_def)
            session.num_nodes = count_nodes(request.graph_def)
        except BaseException:
            session.close()
            raise
        handle = self._sessions.add(session)
        log_event(_log, logging.INFO, "session created", task=self._name_prefix, session=handle)
        return proto.CreateSessionResponse(session_handle=handle).SerializeToString()

    def extend_session(self, data: bytes, call: Call) -> bytes:
        """Add nodes to the graph of a session; return its new version."""
        del call
        request = parse_message(proto.ExtendSessionRequest, data)
        session = self._sessions.find(request.session_handle)
        self._limits.check_nodes(request.graph_def, session.num_nodes)
        version = session.extend(request.graph_def, request.current_graph_version)
        session.num_nodes += count_nodes(request.graph_def)
        return proto.ExtendSessionResponse(new_graph_version=version).SerializeToString()

    def run_step(self, data: bytes, call: Call) -> bytes:
        """Run a step, or a piece of a partial run; errors go into the response if requested."""
        message, feeds = RUN_STEP_REQUEST.decode(data, self._host.variants)
        if call.fields is not None:
            call.fields |= {
                "session": message.session_handle,
                "request_id": message.request_id,
                "fetches": list(message.fetch),
                "targets": list(message.target),
            }
        try:
            session = self._sessions.find(message.session_handle)

            def work(request: Request | None) -> bytes:
                with self._slots:
                    return session.step(
                        call,
                        request,
                        lambda cancellation: self._step(session, message, feeds, cancellation),
                    )

            if message.request_id:
                return session.requests.run(message.request_id, call, work)
            return work(None)
        except OpError as error:
            if not message.store_errors_in_response_body:
                raise
            call.code = error.code
            return proto.RunStepResponse(
                status_code=error.code,  # type: ignore[arg-type]
                status_error_message=error_message(error),
            ).SerializeToString()

    def partial_run_setup(self, data: bytes, call: Call) -> bytes:
        """Begin a partial run; return its handle."""
        request = parse_message(proto.PartialRunSetupRequest, data)
        session = self._sessions.find(request.session_handle)

        def work(running: Request | None) -> bytes:
            del running
            handle = session.partial_run_setup(request)
            return proto.PartialRunSetupResponse(partial_run_handle=handle).SerializeToString()

        return _once(session, request.request_id, call, work)

    def make_callable(self, data: bytes, call: Call) -> bytes:
        """Prepare a signature; return the index of the callable."""
        request = parse_message(proto.MakeCallableRequest, data)
        session = self._sessions.find(request.session_handle)

        def work(running: Request | None) -> bytes:
            del running
            number = session.make_callable(request.options)
            return proto.MakeCallableResponse(handle=number).SerializeToString()

        return _once(session, request.request_id, call, work)

    def run_callable(self, data: bytes, call: Call) -> bytes:
        """Run a prepared signature."""
        message, feeds = RUN_CALLABLE_REQUEST.decode(data, self._host.variants)
        session = self._sessions.find(message.session_handle)
        values = [feed.value for feed in feeds]
        variants = self._host.variants

        def run(cancellation: Any) -> bytes:
            measured = proto.RunMetadata() if session.wants_metadata(message.handle) else None
            fetched = session.run_callable(message.handle, values, measured, cancellation)
            response = proto.RunCallableResponse(metadata=measured)
            tensors = [fetched_tensor("", value) for value in fetched]
            return RUN_CALLABLE_RESPONSE.encode(response, tensors, variants)

        def work(request: Request | None) -> bytes:
            with self._slots:
                return session.step(call, request, run)

        return _once(session, message.request_id, call, work)

    def release_callable(self, data: bytes, call: Call) -> bytes:
        """Remove a prepared signature."""
        del call
        request = parse_message(proto.ReleaseCallableRequest, data)
        self._sessions.find(request.session_handle).release_callable(request.handle)
        return b""

    def list_devices(self, data: bytes, call: Call) -> bytes:
        """Return the devices of a session, or those of the server."""
        del call
        request = parse_message(proto.ListDevicesRequest, data)
        if request.session_handle:
            devices: Sequence[DeviceAttributes] = self._sessions.find(
                request.session_handle
            ).session.list_devices()
        elif self._cluster is not None:
            devices = self._tasks_of(self._cluster).devices()
        else:
            devices = [device.attributes for device in self._devices]
        response = proto.ListDevicesResponse()
        for attributes in devices:
            is_local = attributes.name.startswith(f"{self._name_prefix}/")
            listed = response.local_device if is_local else response.remote_device
            listed.append(attributes.to_proto())
            listed[-1].xla_global_id = -1
        return response.SerializeToString()

    def close_session(self, data: bytes, call: Call) -> bytes:
        """Close a session; its steps are cancelled."""
        del call
        request = parse_message(proto.CloseSessionRequest, data)
        handle = request.session_handle
        self._sessions.remove(handle).close()
        log_event(_log, logging.INFO, "session closed", task=self._name_prefix, session=handle)
        return b""

    def reset(self, data: bytes, call: Call) -> bytes:
        """Clear resource containers on the tasks that match the filters; close all sessions."""
        del call
        request = parse_message(proto.ResetRequest, data)
        self._limits.check_reset()
        sessions = self._sessions.remove_all()
        try:
            if self._cluster is None:
                self._devices.clear_containers(request.container)
            else:
                tasks = self._tasks_of(self._cluster, request.device_filters)
                tasks.clear_containers(request.container)
        finally:
            for session in sessions:
                session.close()
        return b""

    def close(self) -> None:
        """Close all sessions."""
        for session in self._sessions.remove_all():
            session.close()

    def _new_session(self, config: proto.ConfigProto) -> MasterSession:
        cluster = self._cluster
        effects = policy_of(config).within(server_policy_of(self._default_config))
        if cluster is None:
            devices, close_devices = self._devices_for(config)
            direct = DirectSession(
                self._host, config, devices, fetches_may_alias=True, effects=effects
            )
            return MasterSession(direct, close_devices)
        workers, task = cluster.by_task(), cluster.master_task
        session = ClusterSession(
            self._host, config, workers, task, self._devices, _CONTROL_SECONDS, effects
        )
        return MasterSession(session, None)

    def _tasks_of(self, cluster: ClusterWorkers, filters: Sequence[str] = ()) -> ClusterTasks:
        """Return the tasks of the cluster, for calls that belong to no session."""
        config = proto.ConfigProto(device_filters=filters)
        seconds = self._default_config.operation_timeout_in_ms / 1000 or _CONTROL_SECONDS
        return ClusterTasks("", cluster.by_task(), cluster.master_task, config, seconds)

    def _devices_for(
        self, config: proto.ConfigProto
    ) -> tuple[DeviceMgr, Callable[[], None] | None]:
        if not config.isolate_session_state:
            return self._devices, None
        own = DeviceMgr(create_devices(self._host, self._default_config, self._name_prefix))
        return own, own.close

    def _step(
        self,
        session: MasterSession,
        message: proto.RunStepRequest,
        feeds: Sequence[NamedTensor],
        cancellation: Any,
    ) -> bytes:
        options = options_of(message)
        variants = self._host.variants
        if options is None or not asks_for_metadata(options):
            fetched = session.run(message, feeds, options, None, cancellation)
            return RUN_STEP_RESPONSE.encode(_NO_RUN, fetched, variants)
        measured = proto.RunMetadata()
        fetched = session.run(message, feeds, options, measured, cancellation)
        response = proto.RunStepResponse(metadata=measured)
        return RUN_STEP_RESPONSE.encode(response, fetched, variants)


def _once(
    session: MasterSession, request_id: int, call: Call, work: Callable[[Request | None], bytes]
) -> bytes:
    """Do the work of a request, or wait for an earlier one with the same id."""
    return session.requests.run(request_id, call, work) if request_id else work(None)


def _take_policy(config: proto.ConfigProto, requested: proto.ConfigProto) -> None:
    """Replace the policy of a merged configuration by the client's; the server's applies anyway."""
    config.graphmill.policy = requested.graphmill.policy
    del config.graphmill.allow[:]
    config.graphmill.allow.extend(requested.graphmill.allow)


def _idle_seconds(config: proto.ConfigProto) -> float:
    """Return the seconds that sessions may be idle, according to the plugin's settings."""
    seconds = plugin_settings(config, "distributed").get("idle_session_seconds", 0.0)
    if not isinstance(seconds, (int, float)) or seconds < 0:
        raise InvalidArgumentError(
            f"idle_session_seconds of plugin distributed is {seconds!r}; expected a number of "
            "seconds, or 0 to never close idle sessions"
        )
    return float(seconds)
