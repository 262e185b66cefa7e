"""`RoutineKernels`: the kernels of a cluster's nodes, shared with who else runs these nodes.

What a kernel keeps from call to call (a generator of random numbers, what a handle was looked up
to) belongs to a node of the session's graph, or of a function as it is called: the names of nodes
are unique there only. The executors that ran the nodes before they were in a cluster have it, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi.compilers import KernelFactory

if TYPE_CHECKING:
    from graphmill.spi import Device, FuncAttr, Node, OpKernel
    from graphmill.spi.compilers import FunctionLibraryRuntime
    from graphmill_plugins.jit.ir.routine import Routine


class RoutineKernels:
    """Makes kernels on one device, or finds those that are there.

    Args:
        device: where they run.
        functions: the function library runtime that they may call.
        owner: the function of the library that the cluster is in; None for the session's graph.
    """

    def __init__(
        self, device: Device, functions: FunctionLibraryRuntime, owner: FuncAttr | None = None
    ) -> None:
        self._device = device
        self._functions = functions
        self._owner = owner
        self._factories: dict[FuncAttr | None, KernelFactory] = {}

    def create(self, node: Node, routine: Routine) -> OpKernel:
        """Return the kernel of a node of a routine.

        Raises:
            OpError: there is none, or it refuses the node.
        """
        owner = self._owner if routine.call is None else routine.call
        factory = self._factories.get(owner)
        if factory is None:
            factory = self._factories[owner] = self._factory_of(owner)
        return factory.create(node)

    def _factory_of(self, owner: FuncAttr | None) -> KernelFactory:
        functions = self._functions
        if owner is None:
            segment = functions.segment
        else:
            segment = functions.instantiate(owner.name, owner.attrs).segment
        return KernelFactory(functions.host, self._device, functions, segment)
