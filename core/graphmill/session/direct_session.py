"""`DirectSession`: a session that runs in this process (clauses S1, S3-S7, S10, S11).

Semantics: `tensorflow/core/common_runtime/direct_session.cc`.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from graphmill.errors import (
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    OpError,
)
from graphmill.lowering.callable_options import callable_rewrites
from graphmill.lowering.execution_state import GraphExecutionState
from graphmill.lowering.functions.function_runtime import FunctionLibraryRuntime
from graphmill.lowering.partitioning.build_executors import PartitionMaker
from graphmill.lowering.passes import PassOptions, check_needed
from graphmill.lowering.policies.effects_policy import policy_of
from graphmill.runtime.devices.device_mgr import DeviceMgr
from graphmill.runtime.devices.transport import rendezvous_maker
from graphmill.runtime.process import fork
from graphmill.runtime.process.shutdown import watch_for_shutdown
from graphmill.runtime.resources.session_state import SessionState
from graphmill.runtime.session_interface import SessionInterface
from graphmill.runtime.steps.cancellation import CancellationManager
from graphmill.session.executors_builder import ExecutorsBuilder, collections_for
from graphmill.session.executors_cache import (
    CachedExecutors,
    ExecutorsAndKeys,
    ExecutorsCache,
    Signature,
)
from graphmill.session.hot_steps import HotSteps
from graphmill.session.session_devices import create_devices
from graphmill.session.steps.partial_run import PartialRuns
from graphmill.session.steps.step_call import execute, make_call
from graphmill.session.thread_pools import ThreadPools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from graphmill import proto
    from graphmill.access.rules import AccessRules
    from graphmill.explain.session_stats import SessionStats
    from graphmill.explain.step import StepRecord
    from graphmill.graph.graph import Graph
    from graphmill.lowering.callable_options import CallableRewrites
    from graphmill.lowering.partitioning.build_executors import PerPartition
    from graphmill.lowering.policies.effects_policy import EffectsPolicy
    from graphmill.plugin.host import Host
    from graphmill.proto.config_pb2 import CallableOptions, ConfigProto, RunMetadata, RunOptions
    from graphmill.runtime.devices.device import Device, DeviceAttributes
    from graphmill.runtime.stepping import StepDriver
    from graphmill.runtime.steps.waits import WaitRecord
    from graphmill.runtime.threads.thread_pool import ThreadPool
    from graphmill.session.debugging.debug_partitions import DebugPartitions
    from graphmill.session.debugging.debug_step import DebugStep
    from graphmill.session.graph_growth import GrowthWatch
    from graphmill.typing import Value

MAX_VARIANTS = 16
"""Maximum number of option sets that change the graph for which a session caches executors."""
_session_numbers = itertools.count(1)


class DirectSession(SessionInterface):
    """The graph, devices and executors of one session.

    Args:
        host: where ops, kernels, devices and executors come from.
        config: the session's configuration.
        devices: the devices of a server, which its sessions share with their resources; None for
            devices of its own.
        fetches_may_alias: whether fetched arrays may share the memory of constants and variables,
            because the caller only reads them, and not for long; else the caller owns them.

    Raises:
        NotFoundError: the executor type is not registered.
        InvalidArgumentError: the config is malformed.

    Threads: any number may run steps. `_graph_lock` guards the full graph and the creation of
    client graphs; a step whose executors exist takes no lock.

    Attributes:
        name: unique in the process, for observers and logs.
        config: the session's `ConfigProto`.
        devices: the session's devices.
        cancellation: cancels all steps when the session is closed.
        host: where ops, kernels, devices and executors come from.
        effects: which effects the kernels may have.
        new_rendezvous: creates the rendezvous of a step on several devices, given its id.
        is_closed: set by `close`.
        session_state: the tensors that are stored between runs.
        partial_runs: the unfinished partial runs.
        hot_steps: builds the graphs of signatures that run often again, with more passes.
        pool: the default thread pool for expensive kernels; None for none.
        fetches_may_alias: whether fetched arrays may share the memory of constants and variables.
        has_timeout: whether the config limits how long a step takes.
    """

    def __init__(
        self,
        host: Host,
        config: ConfigProto,
        devices: DeviceMgr | None = None,
        *,
        fetches_may_alias: bool = False,
        effects: EffectsPolicy | None = None,
    ) -> None:
        if config.ListFields():
            from graphmill.session.config_check import check_config  # most sessions have no config

            check_config(config, host)
        self.name = f"direct-{next(_session_numbers)}"
        self.host = host
        self.config = config
        self.fetches_may_alias = fetches_may_alias
        self.has_timeout = bool(config.operation_timeout_in_ms)
        self.effects = policy_of(config) if effects is None else effects
        self.new_rendezvous = rendezvous_maker(host.transports, config)
        self.cancellation = CancellationManager()
        self.session_state = SessionState()
        self.is_closed = False
        self._pools = ThreadPools(config, host)
        self.pool = self._pools.default
        executor_type = config.experimental.executor_type
        self._executor_factory = host.executors.get(executor_type)
        check_needed(self._executor_factory, executor_type, host)
        self._owns_devices = devices is None
        self.devices = DeviceMgr(create_devices(host, config)) if devices is None else devices
        forbidden = frozenset(self._executor_factory.forbids_passes)
        self._options = PassOptions(
            config,
            self.devices,
            host,
            forbidden,
            self.effects,
            self.new_rendezvous,
            self._function_runtime,
            self.name,
        )
        self._graph_lock = fork.fork_safe_rlock()
        self._state = GraphExecutionState(
            host.ops, self._options, is_static=config.experimental.optimize_for_static_graph
        )
        self._functions: dict[str, FunctionLibraryRuntime] = {}
        self._partitions = PartitionMaker(
            self._options, self._executor_factory, self._function_runtime
        )
        self._builder = ExecutorsBuilder(
            self._state, self._options, self._partitions, self._graph_lock
        )
        self.hot_steps = HotSteps(self, config, self._executor_factory)
        self._cache = ExecutorsCache()
        self._variant_caches: dict[tuple[Any, ...], ExecutorsCache] = {}
        self._debug: DebugPartitions | None = None
        self._debug_caches: dict[bool, ExecutorsCache] = {}
        self.partial_runs = PartialRuns(self)
        self._source: Graph | None = None
        self._growth: GrowthWatch | None = None
        self._source_size = 0
        self._source_edits = 0
        for device in self.devices:
            device.op_segment.add_hold(self.name)
        experimental = config.experimental
        has_metadata = experimental.HasField("session_metadata")
        try:
            host.sessions.add(self, experimental.session_metadata if has_metadata else None)
        except InvalidArgumentError:
            self.close()
            raise
        watch_for_shutdown()
        fork.watch_forks()
        fork.track_forks(self)

    @property
    def graph(self) -> Graph:
        """The session's full graph; do not change it."""
        return self._state.graph

    def extend(
        self,
        graph_def: proto.GraphDef,
        large_tensors: Mapping[tuple[str, str, str], Any] | None = None,
    ) -> None:
        """Add the nodes of a GraphDef (clause S3); on an error the session is unchanged.

        Raises:
            OpError: see `graphmill.graph.formats.import_export.extend_graph`.
        """
        self.check_open()
        with self._graph_lock, collections_for(len(graph_def.node)):
            self._state.extend(graph_def, large_tensors)
            self._state.freeze()

    def follow(self, source: Graph, num_taken: int = 0) -> None:
        """Copy the nodes of a graph object, now and whenever the graph has grown.

        Args:
            source: the graph object.
            num_taken: how many of its node ids the session has already.
        """
        with self._graph_lock, collections_for(len(source)):
            self._source, self._source_size = source, num_taken
            self._source_edits = source.edit_count
            self.sync_graph()

    def sync_graph(self) -> None:
        """Copy the nodes that were added to the followed graph object since the last call.

        Raises:
            FailedPreconditionError: a node that the session has copied was changed or removed.
        """
        source = self._source
        if source is None or (
            source.num_node_ids == self._source_size and source.edit_count == self._source_edits
        ):
            return
        with self._graph_lock:
            if source.edit_count != self._source_edits:
                raise FailedPreconditionError(
                    "a node of the graph was changed or removed after the session read it; "
                    "sessions only see nodes that are added. Create a new session"
                )
            size = source.num_node_ids
            added = list(source.nodes_since(self._source_size))
            self._state.extend_from(source, added)
            source.mark_taken()
            if added and self._source_size:
                self._watch_growth(source, added[-1].name, size)
            self._source_size = size
            self._state.freeze()

    def _watch_growth(self, source: Graph, name: str, size: int) -> None:
        if self._growth is None:
            from graphmill.session.graph_growth import GrowthWatch  # most graphs never grow

            self._growth = GrowthWatch()
        num_steps = sum(one.step_count for one in self.cached_executors())
        self._growth.note(source, name, size, num_steps)

    def executors(
        self,
        key: Signature,
        *,
        is_partial: bool = False,
        watches: Sequence[Any] = (),
        rewrites: CallableRewrites | None = None,
    ) -> CachedExecutors:
        """Return the executors of a signature (feeds, fetches, targets), created by the first call.

        Args:
            key: the signature.
            is_partial: whether it is fed and fetched piece by piece (clause S8).
            watches: the `DebugTensorWatch`es of the run (clause P6).
            rewrites: further options of a callable (clause S7).

        Raises:
            NotFoundError: a name does not exist, or an op has no kernel.
            OpError: placement, a pass or a kernel refused the graph.
        """
        cache = self._cache
        if is_partial or watches or rewrites is not None:
            cache = self._variant_cache(is_partial, watches, rewrites)
        cached = cache.find(key)
        if cached is None:
            self.check_open()
            try:
                cached = cache.get_or_create(
                    key,
                    lambda ordered: self._create_executors(ordered, is_partial, watches, rewrites),
                )
            except OpError as error:
                self.add_location(error)
                raise
        return cached

    def debug_executors(self, key: Signature, *, is_partial: bool = False) -> CachedExecutors:
        """Return executors of a signature whose steps can be driven node by node.

        Nothing is compiled in them. Arguments and errors are those of `executors`.
        """
        self.check_open()
        with self._graph_lock:
            if self._debug is None:
                from graphmill.session.debugging.debug_partitions import (
                    DebugPartitions,  # few are debugged
                )

                self._debug = DebugPartitions(
                    self._state.graph, self._options, self._partitions, self._function_runtime
                )
            cache = self._debug_caches.setdefault(is_partial, ExecutorsCache())
        try:
            return cache.get_or_create(
                key,
                lambda ordered: self._create_executors(
                    ordered,
                    is_partial,
                    (),
                    None,
                    self._debug.maker,  # type: ignore[union-attr]
                ),
            )
        except OpError as error:
            self.add_location(error)
            raise

    def debug_step(
        self,
        signature: Signature,
        values: Mapping[str, Any],
        driver: StepDriver,
        *,
        is_partial: bool = False,
    ) -> DebugStep:
        """Return a step of a signature that `driver` drives; see `SessionInterface.debug_step`."""
        from graphmill.session.debugging.debug_step import DebugStep  # few steps are debugged

        cached = self.debug_executors(signature, is_partial=is_partial)
        return DebugStep(self, cached, values, driver, is_partial=is_partial)

    def cached_executors(self) -> list[ExecutorsAndKeys]:
        """Return the cached executors of all signatures, except of partial and watched runs."""
        of_callables = [entry for entry in self._variants() if entry.rewrites is not None]
        return [*self._cache.entries(), *of_callables]

    def watched_executors(self) -> list[ExecutorsAndKeys]:
        """Return the cached executors of partial and watched runs."""
        return [entry for entry in self._variants() if entry.rewrites is None]

    def _variants(self) -> list[ExecutorsAndKeys]:
        with self._graph_lock:
            caches = list(self._variant_caches.values())
        return [entry for cache in caches for entry in cache.entries()]

    def _variant_cache(
        self, is_partial: bool, watches: Sequence[Any], rewrites: CallableRewrites | None
    ) -> ExecutorsCache:
        """Return the cache of executors for options that change the graph (clause S5)."""
        variant = (is_partial, rewrites, *(watch.SerializeToString() for watch in watches))
        with self._graph_lock:
            caches = self._variant_caches
            cached = caches.get(variant)
            if cached is None:
                cached = caches[variant] = ExecutorsCache()
                if len(caches) > MAX_VARIANTS:  # a debugger sets new watches again and again
                    del caches[next(key for key in caches if key != variant)]
            return cached

    def thread_pool(self, index: int) -> ThreadPool | None:
        """Return the pool that `RunOptions.inter_op_thread_pool` selects, None for -1 (S2)."""
        return self._pools.get(index)

    def run(
        self,
        signature: Signature,
        values: Sequence[Any],
        options: RunOptions | None,
        run_metadata: RunMetadata | None,
        cancellation: CancellationManager | None = None,
    ) -> list[Value]:
        """Run one step; `cancellation` cancels only this step. See `SessionInterface.run`."""
        entry = self._cache.find(signature) if options is None else None
        if entry is None:
            entry = self.executors(signature, watches=watches_of(options))
        return execute(self, entry, values, options, run_metadata, cancellation)

    def make_callable(
        self,
        signature: Signature,
        rebuild: Callable[[list[Value]], Any],
        options: RunOptions | None,
        callable_options: CallableOptions | None = None,
    ) -> Callable[..., Any]:
        """Return a function that runs a signature; see `SessionInterface.make_callable`."""
        rewrites = None
        if callable_options is not None:
            rewrites = callable_rewrites(callable_options, self.graph, self.devices)
        entry = self.executors(signature, watches=watches_of(options), rewrites=rewrites)
        return make_call(self, entry, rebuild, len(signature[0]), options)

    def partial_run_setup(self, signature: Signature, options: RunOptions | None) -> str:
        """Begin a run that is fed and fetched piece by piece; return its handle."""
        return self.partial_runs.setup(signature, options)

    def partial_run(
        self,
        handle: str,
        fetches: Sequence[str],
        feeds: Mapping[str, Any],
        run_metadata: RunMetadata | None,
    ) -> list[Value]:
        """Run one piece of a partial run; see `PartialRuns.run`."""
        return self.partial_runs.run(handle, fetches, feeds, run_metadata)

    def partial_run_release(self, handle: str) -> None:
        """End a partial run that will not be finished; see `PartialRuns.release`."""
        self.partial_runs.release(handle)

    def cancel_partial_run(self, handle: str, reason: OpError) -> None:
        """Cancel a partial run whose caller has disconnected; do nothing if it is finished."""
        self.partial_runs.cancel(handle, reason)

    def explain(self, signature: Signature, *, build: bool) -> StepRecord:
        """Return for each node of a signature its device, kernel and tier, with reasons."""
        from graphmill.explain.step import step_record

        return step_record(self, signature, build=build)

    def step_graph(self, signature: Signature) -> Graph:
        """Return the nodes that a signature needs, with calls of functions inlined."""
        from graphmill.proto.debug_pb2 import DebugTensorWatch

        everything = DebugTensorWatch(node_name="*")
        with self._graph_lock:
            return self._state.build_client_graph(*signature, watches=[everything]).graph

    def add_location(self, error: OpError) -> None:
        """Add to an error the failing operation, and where the program created it, if it did."""
        if error.node is None:
            return
        from graphmill.graph.failed_operation import set_failed_operation  # few steps fail

        source = self._source
        if source is None:
            set_failed_operation(error, self.graph, self.graph_object)
            return
        set_failed_operation(error, source)
        if error.defined_at is None:
            error.defined_at = source.location_of(error.node)

    def stats(self) -> SessionStats:
        """Return the counters of the session: steps, calls by tier, compilations."""
        from graphmill.explain.session_stats import session_stats

        return session_stats(self)

    def explain_all(self) -> list[StepRecord]:
        """Return the records of all signatures in the session's executor caches."""
        from graphmill.explain.step import step_records

        return step_records(self)

    def waits(self) -> list[WaitRecord]:
        """Return what the session's steps wait for now, and which nodes use the same resources."""
        from graphmill.session.steps.step_waits import with_users

        return with_users(self.cancellation.waits(), self.graph)

    def loading_a_model(self) -> AbstractContextManager[None]:
        """Permit reading the files of a model in a `with` block, even if effects are forbidden."""
        return self.effects.loading_a_model()

    def allowing(self, rules: AccessRules) -> AbstractContextManager[None]:
        """Add rules in a `with` block."""
        return self.effects.allowing(rules)

    def list_devices(self) -> list[DeviceAttributes]:
        """Return name, type, memory limit and incarnation of each device."""
        return [device.attributes for device in self.devices]

    def close(self) -> None:
        """Cancel running steps, drop executors and resources; a second call does nothing."""
        if self.is_closed:
            return
        self.is_closed = True
        self.host.sessions.discard(self)
        self.cancellation.start_cancel(CancelledError("Session has been closed."))
        self.host.background.forget(self)
        self.partial_runs.close()
        caches = (*self._variant_caches.values(), *self._debug_caches.values())
        for cache in (self._cache, *caches):
            cache.clear()
        if self._debug is not None:
            self._debug.close()
        for functions in list(self._functions.values()):
            functions.close()
        self.session_state.clear()
        if self._owns_devices:
            self.devices.close()
        for device in self.devices:
            device.op_segment.remove_hold(self.name)
        self._pools.close()

    def after_fork_in_child(self) -> None:
        """Abandon the work of other threads for the session; a fork does not copy threads."""
        if self.is_closed:
            return
        for device in self.devices:
            device.after_fork_in_child()
        self.partial_runs.abandon()
        for executors in self.cached_executors():
            self.hot_steps.after_fork_in_child(executors)

    def reset(self, containers: Iterable[str]) -> None:
        """Clear resource containers (clause S10)."""
        self.devices.clear_containers(containers)

    def _create_executors(
        self,
        key: Signature,
        is_partial: bool,
        watches: Sequence[Any],
        rewrites: CallableRewrites | None,
        stepping: PartitionMaker | None = None,
    ) -> ExecutorsAndKeys:
        executors = self._builder.build(
            key,
            self._source,
            is_partial=is_partial,
            watches=watches,
            rewrites=rewrites,
            maker=stepping,
        )
        if not (is_partial or watches or stepping):
            self.hot_steps.prepare(executors)
        return executors

    def hot_partitions(
        self, key: Signature, rewrites: CallableRewrites | None = None
    ) -> tuple[PerPartition, ...]:
        """Return newly built partitions of a signature; see `ExecutorsBuilder.hot_partitions`."""
        return self._builder.hot_partitions(key, rewrites)

    def _function_runtime(self, device: Device) -> FunctionLibraryRuntime:
        runtime = self._functions.get(device.name)
        if runtime is None:
            new_runtime = FunctionLibraryRuntime(
                self._state.graph, device, self._options, self._partitions, self._function_runtime
            )
            runtime = self._functions.setdefault(device.name, new_runtime)  # two threads may race
            if self.is_closed:  # in another thread, perhaps before it could see this one
                runtime.close()
        return runtime


def watches_of(options: RunOptions | None) -> Sequence[Any]:
    """Return the `DebugTensorWatch`es that options request (clause P6)."""
    return () if options is None else options.debug_options.debug_tensor_watch_opts
