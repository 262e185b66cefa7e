"""Build executors from a graph: place, partition, rewrite, choose kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.errors import NotFoundError
from graphmill.lowering.functions.function_bodies import lower_body, placement_options
from graphmill.lowering.kernel_factory import KernelFactory
from graphmill.lowering.partitioning.partition import partition
from graphmill.lowering.passes import check_needed, run_passes
from graphmill.lowering.placement.memory_types import MemoryTypeFinder, ensure_memory_types
from graphmill.lowering.placement.placer import place
from graphmill.lowering.plugin_faults import faults_of
from graphmill.lowering.policies.determinism import check_seeds
from graphmill.plugin.pass_registry import HOT, HOT_PLACEMENT
from graphmill.runtime.executor import Executor, LocalExecutorParams

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.graph.graph import Graph
    from graphmill.lowering.functions.function_runtime import FunctionLibraryRuntime
    from graphmill.lowering.passes import PassOptions
    from graphmill.lowering.placement.placer import PlacementRecord
    from graphmill.registry import Provenance
    from graphmill.runtime.devices.device import Device
    from graphmill.runtime.executor import ExecutorFactory
    from graphmill.runtime.kernels.op_segment import StatefulKernels


class PerPartition:
    """One partition: a graph on one device, with its executor."""

    __slots__ = ("device", "executor", "functions", "graph")

    def __init__(
        self, graph: Graph, device: Device, functions: FunctionLibraryRuntime, executor: Executor
    ) -> None:
        self.graph = graph
        self.device = device
        self.functions = functions
        self.executor = executor


class PartitionMaker:
    """Partition the graphs of one session and create their executors.

    Args:
        options: config, devices and host.
        executor_factory: the factory of the executors.
        functions_of: returns the function library runtime of a device.

    Threads: starts none; the calling thread changes the graphs.

    Attributes:
        pinned: devices of stateful nodes of the session's graph, as placed by the first step.
    """

    def __init__(
        self,
        options: PassOptions,
        executor_factory: ExecutorFactory,
        functions_of: Callable[[Device], FunctionLibraryRuntime],
    ) -> None:
        self._options = options
        self._executor_factory = executor_factory
        self._functions_of = functions_of
        self._executor_type: str = options.config.experimental.executor_type
        self.pinned: dict[str, str] = {}

    def with_functions(
        self, functions_of: Callable[[Device], FunctionLibraryRuntime]
    ) -> PartitionMaker:
        """Return a copy whose kernels call functions through other runtimes."""
        maker = PartitionMaker(self._options, self._executor_factory, functions_of)
        maker._executor_type = self._executor_type
        maker.pinned = self.pinned
        return maker

    def with_executor(self, executor_type: str) -> PartitionMaker:
        """Return a copy that makes executors of another type, for functions that require it.

        Raises:
            NotFoundError: no executor of that type is registered.
            FailedPreconditionError: it needs a pass that is not registered or disabled.
        """
        factory = self._options.host.executors.get(executor_type)
        check_needed(factory, executor_type, self._options.host)
        options = self._options.with_forbidden(frozenset(factory.forbids_passes))
        maker = PartitionMaker(options, factory, self._functions_of)
        maker._executor_type = executor_type
        maker.pinned = self.pinned
        return maker

    def for_client_graph(
        self, graph: Graph, full: Graph, *, is_hot: bool = False
    ) -> tuple[list[PerPartition], list[PlacementRecord]]:
        """Return the partitions of a client graph, and the reasons for the placement.

        Args:
            graph: the pruned graph of a signature; this consumes it.
            full: the session's graph of which it is a part.
            is_hot: whether to run the passes of phases `HOT_PLACEMENT` and `HOT`, too.

        Raises:
            InvalidArgumentError: the graph cannot be placed or partitioned.
            NotFoundError: an op has no kernel.
            PermissionDeniedError: a kernel may have an effect that the session forbids.
            OpError: a pass or a kernel rejects the graph.
        """
        placement = placement_options(self._options, None)
        records = place(graph, placement, full=full, pinned=self.pinned)
        hot_placement, hot = ((HOT_PLACEMENT,), (HOT,)) if is_hot else ((), ())
        for phase in ("POST_PLACEMENT", "POST_REWRITE_FOR_EXEC", *hot_placement):
            run_passes(phase, graph, self._options)
        last = ("POST_PARTITIONING", *hot)
        return self._split(graph, last), records

    def for_registered_graph(self, graph: Graph, *, is_hot: bool = False) -> list[PerPartition]:
        """Return the partitions of a graph that a master has pruned, placed and split by task.

        Args:
            graph: the graph, in which each node has a device; this consumes it.
            is_hot: whether to run the passes of phases `HOT_PLACEMENT` and `HOT`, too.

        Raises:
            OpError: as for `for_client_graph`.
        """
        if is_hot:
            run_passes(HOT_PLACEMENT, graph, self._options)
        return self._split(graph, ("POST_PARTITIONING", *((HOT,) if is_hot else ())))

    def for_function(
        self, graph: Graph, device: Device, segment: StatefulKernels, *, is_lowered: bool = False
    ) -> list[PerPartition]:
        """Return the partitions of a function's body.

        Args:
            graph: the body; this consumes it.
            device: the caller's device.
            segment: cache for the body's stateful kernels.
            is_lowered: whether its nodes come from a graph on which all passes have already run.

        Raises:
            OpError: as for `for_client_graph`.
        """
        if is_lowered:
            place(graph, placement_options(self._options, device))
            return self._split(graph, (), segment)
        lower_body(graph, device, self._options, log=True)
        return self._split(graph, ("POST_PARTITIONING",), segment)

    def _split(
        self, graph: Graph, phases: Sequence[str], segment: StatefulKernels | None = None
    ) -> list[PerPartition]:
        """Return the partitions; `segment` caches stateful kernels (default: the session's)."""
        options = self._options
        if options.config.graphmill.deterministic:
            check_seeds(graph, options.host.ops)
        memory = MemoryTypeFinder(options.host.kernels)
        parts = partition(graph, options.devices, options.host.ops, memory)
        for device, part in parts:
            options.effects.check(part, device, options.host.kernels)
            for phase in phases:
                if phase != HOT or not device.observes_kernels:
                    run_passes(phase, part, options)
            with faults_of(self._device_owner(device), "the graph rewrite"):
                device.maybe_rewrite_graph(part)
            ensure_memory_types(part, device, memory)
        runtimes = [self._functions_of(device) for device, _ in parts]
        factories = [
            KernelFactory(options.host, device, functions, segment or functions.segment)
            for (device, _), functions in zip(parts, runtimes, strict=True)
        ]
        _choose_kernels(factories, [part for _, part in parts])
        return [
            self._make(part, device, kernels)
            for (device, part), kernels in zip(parts, factories, strict=True)
        ]

    def _make(self, graph: Graph, device: Device, kernels: KernelFactory) -> PerPartition:
        functions = self._functions_of(device)
        params = LocalExecutorParams(
            device,
            kernels.create,
            function_library=functions,
            config=self._options.config,
            find_executor=self._options.host.executors.get,
            new_rendezvous=self._options.new_rendezvous,
        )
        registry = self._options.host.executors
        name = self._executor_type
        with faults_of(registry.provenance(name), f"the executor {name!r}"):
            executor = self._executor_factory.new_executor(params, graph)
            if not isinstance(executor, Executor):
                raise TypeError(f"its factory returned {executor!r}, which is not an Executor")
        executor.owner = registry.provenance(name)
        return PerPartition(graph, device, functions, executor)

    def _device_owner(self, device: Device) -> Provenance:
        return self._options.host.devices.provenance(device.device_type)


def _choose_kernels(factories: Sequence[KernelFactory], graphs: Sequence[Graph]) -> None:
    """Look up the kernels of all partitions.

    Raises:
        NotFoundError: some nodes have no kernel; the message lists all of them, on all devices.
    """
    failures = []
    for factory, graph in zip(factories, graphs, strict=True):
        try:
            factory.choose_all(graph)
        except NotFoundError as error:
            failures.append(error)
    if failures:
        first = failures[0]
        first.message = "\n".join(error.message for error in failures)
        raise first
