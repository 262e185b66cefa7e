"""`DebugPartitions`: executors of a session that a debugger steps through.

They run the session's nodes with the session's devices, resources and stateful kernels, so that a
debugged step sees and changes the same variables and draws the same random numbers as any other.
Kernels that call functions are their own, because theirs call functions that can be stepped too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.lowering.functions.function_runtime import FunctionHandle, FunctionLibraryRuntime
from graphmill.lowering.partitioning.build_executors import PartitionMaker
from graphmill.ops.definition.op_traits import CallKind
from graphmill.runtime.kernels.op_segment import StatefulKernels
from graphmill.runtime.stepping import STEPPING_EXECUTOR

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Self

    from graphmill.graph.graph import Graph
    from graphmill.lowering.passes import PassOptions
    from graphmill.runtime.devices.device import Device
    from graphmill.runtime.kernels.op_kernel import OpKernel
    from graphmill.runtime.resources.resource_mgr import ResourceMgr


class DebugPartitions:
    """The partition maker of a session's debugged steps, with its functions.

    Args:
        full_graph: the session's graph.
        options: the session's options.
        maker: makes the session's ordinary partitions.
        functions_of: returns the ordinary functions of a device.

    Threads: as `FunctionLibraryRuntime`.

    Attributes:
        maker: makes the partitions.
    """

    def __init__(
        self,
        full_graph: Graph,
        options: PassOptions,
        maker: PartitionMaker,
        functions_of: Callable[[Device], FunctionLibraryRuntime],
    ) -> None:
        self._graph = full_graph
        self._options = options
        self._functions_of = functions_of
        self._runtimes: dict[str, SteppedFunctions] = {}
        stepping = maker.with_executor(STEPPING_EXECUTOR).with_functions(self.functions)
        self.maker = _SteppingMaker.of(stepping)

    def functions(self, device: Device) -> FunctionLibraryRuntime:
        """Return the functions of a device, whose calls can be stepped through."""
        runtime = self._runtimes.get(device.name)
        if runtime is None:
            ordinary = self._functions_of(device)
            new_runtime = SteppedFunctions(
                self._graph, device, self._options, self.maker, self.functions, ordinary
            )
            runtime = self._runtimes.setdefault(device.name, new_runtime)
        return runtime

    def close(self) -> None:
        """Discard all instantiated functions."""
        for runtime in list(self._runtimes.values()):
            runtime.close()


class _SteppingMaker(PartitionMaker):
    """Makes partitions that can be stepped, also for functions that ask for another executor."""

    @classmethod
    def of(cls, maker: PartitionMaker) -> Self:
        """Return a copy of a maker."""
        copied = cls.__new__(cls)
        copied.__dict__.update(maker.__dict__)
        return copied

    def with_executor(self, executor_type: str) -> PartitionMaker:
        """Return this maker, as a function on another executor could not be stepped."""
        del executor_type
        return self


class SteppedFunctions(FunctionLibraryRuntime):
    """The functions of a session on one device, run by executors that can be stepped.

    Args:
        full_graph, device, options, maker, peer: as for `FunctionLibraryRuntime`.
        ordinary: the functions of ordinary steps, with whose stateful kernels these run.
    """

    def __init__(
        self,
        full_graph: Graph,
        device: Device,
        options: PassOptions,
        maker: PartitionMaker,
        peer: Callable[[Device], FunctionLibraryRuntime],
        ordinary: FunctionLibraryRuntime,
    ) -> None:
        super().__init__(full_graph, device, options, maker, peer)
        self._ordinary = ordinary
        self._segment = SharedKernels(ordinary.segment, ordinary)

    @property
    def segment(self) -> StatefulKernels:
        """The stateful kernels of the nodes of the session's graph on the device."""
        return self._segment

    def instantiate(
        self, name: str, attrs: Mapping[str, Any] | None = None, *, executor_type: str = ""
    ) -> FunctionHandle:
        """Return the handle of a function; see `FunctionLibraryRuntime.instantiate`."""
        handle = super().instantiate(name, attrs, executor_type=executor_type)
        if not isinstance(handle.segment, SharedKernels):
            ordinary = self._ordinary.instantiate(name, attrs, executor_type=executor_type)
            handle.segment = SharedKernels(ordinary.segment, self._ordinary)
        return handle


class SharedKernels(StatefulKernels):
    """The stateful kernels of another table, except for those of nodes that call functions.

    Args:
        shared: the other table.
        functions: the functions that kernels of the other table call.
    """

    def __init__(self, shared: StatefulKernels, functions: FunctionLibraryRuntime) -> None:
        super().__init__()
        self._shared = shared
        self._functions = functions

    def private_container(self, resources: ResourceMgr) -> str:
        """Return the container of the resources that are deleted with the shared kernels."""
        return self._shared.private_container(resources)

    def find_or_create(self, node_name: str, create: Callable[[], OpKernel]) -> OpKernel:
        """Return the kernel of a node, created by `create` at its first use."""
        kernel = self._shared.find(node_name)
        if kernel is None:
            kernel = create()
            if not self._calls_functions(kernel):
                kernel.functions = self._functions  # ordinary steps use the kernel, too
                return self._shared.find_or_create(node_name, lambda: kernel)
            return super().find_or_create(node_name, lambda: kernel)
        if self._calls_functions(kernel):
            return super().find_or_create(node_name, create)
        return kernel

    def _calls_functions(self, kernel: OpKernel) -> bool:
        """Return whether a kernel calls functions in its step, not only in iterators."""
        calls = self._functions.host.ops.get(kernel.op).calls
        return any(call.kind is not CallKind.DEFERRED for call in calls)
