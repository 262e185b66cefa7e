"""`ClusterSession`: a session whose graph runs on the tasks of a cluster (clause W2).

Semantics: `tensorflow/core/distributed_runtime/master_session.cc`. It calls the tasks through
`WorkerInterface`, independent of the protocol.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

from graphmill import proto
from graphmill.distributed.master.cluster_partial_runs import ClusterPartialRuns
from graphmill.distributed.master.cluster_step import ClusterStep
from graphmill.distributed.master.cluster_tasks import ClusterTasks
from graphmill.distributed.master.followed_graph import FollowedGraph
from graphmill.distributed.master.registered_signature import (
    RegisteredSignature,
    key_of,
    new_step_id,
    watches_of,
)
from graphmill.distributed.master.remote_device import remote_devices
from graphmill.distributed.master.signature_cache import SignatureCache
from graphmill.distributed.master.step_metadata import fill_metadata
from graphmill.distributed.master.task_graphs import TaskGraphMaker
from graphmill.errors import CancelledError, InvalidArgumentError, UnimplementedError
from graphmill.graph.node import parse_tensor_name
from graphmill.lowering.callable_options import callable_rewrites
from graphmill.lowering.execution_state import GraphExecutionState
from graphmill.lowering.passes import PassOptions
from graphmill.lowering.policies.effects_policy import policy_of
from graphmill.lowering.prune import ClientEnd
from graphmill.runtime.devices.device_mgr import DeviceMgr
from graphmill.runtime.process.fork import fork_safe_rlock
from graphmill.runtime.session_interface import SessionInterface
from graphmill.runtime.steps.cancellation import CancellationManager
from graphmill.session.config_check import check_config
from graphmill.session.debugging.debug_metadata import publish_step
from graphmill.session.options import as_message, copy_message
from graphmill.session.reports.cost_model import is_cost_step
from graphmill.session.steps.feeds import feed_converter, static_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from graphmill.distributed.master.registered_signature import SignatureKey
    from graphmill.distributed.master.worker_interface import WorkerInterface
    from graphmill.errors import OpError
    from graphmill.graph.graph import Graph
    from graphmill.lowering.callable_options import CallableRewrites
    from graphmill.lowering.policies.effects_policy import EffectsPolicy
    from graphmill.plugin.host import Host
    from graphmill.proto.config_pb2 import CallableOptions, ConfigProto, RunMetadata, RunOptions
    from graphmill.runtime.devices.device import Device, DeviceAttributes
    from graphmill.session.executors_cache import Signature
    from graphmill.typing import Value

_TIMEOUT_FRACTION: Final = 0.8
"""The fraction of a client's timeout after which a master stops waiting, and names late tasks."""


class ClusterSession(SessionInterface):
    """The graph of a session, and its partitions on the tasks of a cluster.

    Args:
        host: where ops and kernels come from; they say where nodes can be placed.
        config: the session's configuration.
        workers: the workers of all tasks by name, `/job:worker/replica:0/task:0`; not closed.
        master_task: the name of the master's own task.
        local: devices of this process; other tasks' devices of the same types run the same kernels.
        timeout: the timeout in seconds of calls that do not run steps, unless the config has an
            `operation_timeout_in_ms`, in which case it is slightly less than that.
        effects: the effects that graphs may have; by default those that the config allows.

    Raises:
        DeadlineExceededError: a task has not answered in time; names it.
        UnavailableError: a task cannot be reached; names it.
        OpError: another error of a task.

    Threads: any number may run steps. `_graph_lock` guards the full graph, and client graphs are
    built under it.

    Attributes:
        handle: the handle of the session on its workers.
        cancellation: cancels all steps when the session is closed.
    """

    def __init__(
        self,
        host: Host,
        config: ConfigProto,
        workers: Mapping[str, WorkerInterface],
        master_task: str,
        local: Iterable[Device],
        timeout: float = 30.0,
        effects: EffectsPolicy | None = None,
    ) -> None:
        check_config(config, host)
        self._effects = policy_of(config) if effects is None else effects
        self.host = host
        self.config = config
        self.handle = secrets.token_hex(8)
        self.is_closed = False
        self.cancellation = CancellationManager()
        self._timeout = _TIMEOUT_FRACTION * config.operation_timeout_in_ms / 1000 or timeout
        self._tasks = ClusterTasks(self.handle, workers, master_task, config, self._timeout)
        devices = self._tasks.devices()
        self._devices = DeviceMgr(remote_devices(devices, master_task, local, host))
        executors = host.executors.get(config.experimental.executor_type)
        options = PassOptions(config, self._devices, host, frozenset(executors.forbids_passes))
        is_static = config.experimental.optimize_for_static_graph
        self._state = GraphExecutionState(
            host.ops, options, is_static=is_static, knows_kernels=False
        )
        self._maker = TaskGraphMaker(options)
        self._graph_lock = fork_safe_rlock()
        self._cache = SignatureCache()
        self._partial_runs = ClusterPartialRuns()
        self._source: FollowedGraph | None = None
        self._tasks.create_sessions(devices, is_isolated=config.isolate_session_state)

    @property
    def graph(self) -> Graph:
        """The session's full graph; do not change it."""
        return self._state.graph

    def extend(
        self,
        graph_def: proto.GraphDef,
        large_tensors: Mapping[tuple[str, str, str], Any] | None = None,
    ) -> None:
        """Add the nodes of a GraphDef, and deregister earlier graphs.

        Raises:
            OpError: see `graphmill.graph.formats.import_export.extend_graph`.
        """
        self.check_open()
        with self._graph_lock:
            self._state.extend(graph_def, large_tensors)
            self._state.freeze()
            self._cache.clear()

    def follow(self, source: Graph, num_taken: int = 0) -> None:
        """Add the nodes of a graph object, now and whenever it has grown."""
        with self._graph_lock:
            self._source = FollowedGraph(source, num_taken)
            self.sync_graph()

    def sync_graph(self) -> None:
        """Add the nodes that the followed graph object has gained.

        Raises:
            FailedPreconditionError: a node that was there before has been changed since.
        """
        if self._source is None or not self._source.has_grown:
            return
        with self._graph_lock:
            self._source.take(self._state)
            self._cache.clear()

    def run(
        self,
        signature: Signature,
        values: Sequence[Any],
        options: RunOptions | None,
        run_metadata: RunMetadata | None,
        cancellation: CancellationManager | None = None,
    ) -> list[Value]:
        """Run one step, which `cancellation` cancels alone; see `SessionInterface.run`."""
        return self._run(signature, values, options, run_metadata, None, cancellation)

    def make_callable(
        self,
        signature: Signature,
        rebuild: Callable[[list[Value]], Any],
        options: RunOptions | None,
        callable_options: CallableOptions | None = None,
    ) -> Callable[..., Any]:
        """Return a function that runs a signature; see `SessionInterface.make_callable`.

        Raises:
            UnimplementedError: values should stay on devices, which belong to another process.
        """
        rewrites = None
        if callable_options is not None:
            rewrites = callable_rewrites(callable_options, self.graph, self._devices)
            if rewrites is not None and (rewrites.feed_devices or rewrites.fetch_devices):
                raise UnimplementedError(
                    "feed_devices and fetch_devices are not possible in a session on a cluster: "
                    "the devices may be another process's. Leave them out"
                )
        self._acquire(signature, options, rewrites).release()
        count = len(signature[0])

        def call(
            *values: Any,
            run_metadata: RunMetadata | None = None,
            cancellation: CancellationManager | None = None,
        ) -> Any:
            self.check_open()
            if len(values) != count:
                raise InvalidArgumentError(
                    f"the callable takes {count} values ({', '.join(signature[0]) or 'none'}), "
                    f"{len(values)} given"
                )
            results = self._run(signature, values, options, run_metadata, rewrites, cancellation)
            return rebuild(results)

        return call

    def partial_run_setup(self, signature: Signature, options: RunOptions | None) -> str:
        """Begin a run that is fed and fetched piece by piece; return its handle."""
        self.check_open()
        registered = self._acquire(signature, _message(options), None)
        step = self._new_step(registered, CancellationManager(self.cancellation), is_partial=True)
        return self._partial_runs.add(step, registered, signature)

    def partial_run(
        self,
        handle: str,
        fetches: Sequence[str],
        feeds: Mapping[str, Any],
        run_metadata: RunMetadata | None,
    ) -> list[Value]:
        """Run one piece of a partial run; see `SessionInterface.partial_run`."""
        self.check_open()
        values, results = self._partial_runs.run(handle, fetches, feeds)
        _fill(run_metadata, results)
        return values

    def partial_run_release(self, handle: str) -> None:
        """End a partial run that will not be finished."""
        self._partial_runs.release(handle)

    def cancel_partial_run(self, handle: str, reason: OpError) -> None:
        """End a partial run from another thread; its calls raise `reason`."""
        self._partial_runs.cancel(handle, reason)

    def list_devices(self) -> list[DeviceAttributes]:
        """Return name, type, memory limit and incarnation of each device of all tasks."""
        return [device.attributes for device in self._devices]

    def reset(self, containers: Iterable[str]) -> None:
        """Clear resource containers on all tasks (clause S10).

        Raises:
            OpError: a task cannot be reached; names it.
        """
        self._tasks.clear_containers(containers)

    def close(self) -> None:
        """Cancel running steps and end the session on all tasks, in bounded time.

        A second call does nothing.
        """
        if self.is_closed:
            return
        self.is_closed = True
        self.cancellation.start_cancel(CancelledError("Session has been closed."))
        self._partial_runs.close()
        self._cache.clear()
        self._tasks.delete_sessions()

    def _run(
        self,
        signature: Signature,
        values: Sequence[Any],
        options: RunOptions | None,
        run_metadata: RunMetadata | None,
        rewrites: CallableRewrites | None,
        cancellation: CancellationManager | None,
    ) -> list[Value]:
        self.check_open()
        run_options = _message(options)
        registered = self._acquire(signature, run_options, rewrites)
        try:
            feeds, fetches, _ = signature
            pairs = zip(feeds, values, strict=True)
            converted = {name: registered.converters[name](value) for name, value in pairs}
            costs = is_cost_step(self.config.graph_options, registered.step_count)
            registered.step_count += 1
            step = self._new_step(registered, cancellation or self.cancellation, wants_costs=costs)
            unique = tuple(dict.fromkeys(fetches))
            if run_options is not None and run_options.debug_options.debug_tensor_watch_opts:
                broker = self._effects.broker("a debug watch")
                publish_step(
                    signature, run_options, step.step_id, registered.step_count - 1, broker
                )
            try:
                by_name, results = step.run(
                    converted, unique, run_options, self._step_timeout(run_options)
                )
            finally:
                step.clean_up()
        finally:
            registered.release()
        _fill(run_metadata, results)
        return [by_name[name] for name in fetches]

    def _new_step(
        self,
        registered: RegisteredSignature,
        cancellation: CancellationManager,
        *,
        is_partial: bool = False,
        wants_costs: bool = False,
    ) -> ClusterStep:
        return ClusterStep(
            self.handle,
            registered,
            self._tasks.workers,
            new_step_id(),
            cancellation,
            is_partial=is_partial,
            wants_costs=wants_costs,
        )

    def _step_timeout(self, options: RunOptions | None) -> float | None:
        """Return the timeout of a step in seconds; None for none."""
        milliseconds = 0 if options is None else options.timeout_in_ms
        milliseconds = milliseconds if milliseconds > 0 else self.config.operation_timeout_in_ms
        return milliseconds / 1000 if milliseconds > 0 else None

    def _acquire(
        self, signature: Signature, options: RunOptions | None, rewrites: CallableRewrites | None
    ) -> RegisteredSignature:
        return self._cache.acquire(key_of(signature, options, rewrites), self._register)

    def _register(self, key: SignatureKey) -> RegisteredSignature:
        with self._graph_lock:
            full = self._state.graph
            master = self._devices.host.attributes
            client = self._state.build_client_graph(
                key.feeds,
                key.fetches,
                key.targets,
                ClientEnd(master.name, master.incarnation),
                key.rewrites,
                watches_of(key),
            )
            needed = client.needed_feeds()
            parts = self._maker.make(client.graph, full)
            shapes = [_feed_shape(full, feed) for feed in key.feeds]
        named = zip(key.feeds, client.feed_types, shapes, strict=True)
        converters = {name: feed_converter(name, dtype, shape) for name, dtype, shape in named}
        workers = self._tasks.workers
        signature = RegisteredSignature(self.handle, parts, workers, converters, needed)
        signature.register(key, self.config, self._timeout)
        return signature


def _message(options: RunOptions | None) -> RunOptions | None:
    return None if options is None else as_message(proto.RunOptions, options, "options")


def _fill(run_metadata: RunMetadata | None, results: Sequence[Any]) -> None:
    if run_metadata is not None:
        metadata = proto.RunMetadata()
        fill_metadata(metadata, results)
        copy_message(metadata, run_metadata)


def _feed_shape(full: Graph, feed: str) -> Any:
    name, output = parse_tensor_name(feed)
    if not full.has_node(name):  # it is inside a function
        return None
    return static_shape(full.node(name), output, full.versions.producer)
