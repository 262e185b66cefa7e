"""`BodyKernels`: the kernels of a cluster's nodes, shared with the executors that ran these nodes.

The state of a kernel (a random generator, a resource that was looked up) belongs to a node of the
session's graph or of a called function, because node names are unique only there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi.compilers import KernelFactory, ShapeSources

if TYPE_CHECKING:
    from graphmill.spi import Device, FuncAttr, Node, OpKernel
    from graphmill.spi.compilers import FunctionLibraryRuntime
    from graphmill_plugins.jit.ir.scheduled_body import ScheduledBody


class BodyKernels:
    """Creates the kernels of one device, or finds existing ones.

    Args:
        device: the device that they run on.
        functions: the function library runtime that they may call.
        owner: the library function that contains the cluster; None for the session's graph.
        shapes: what is known about the shapes of the cluster's arguments; by default nothing.
    """

    def __init__(
        self,
        device: Device,
        functions: FunctionLibraryRuntime,
        owner: FuncAttr | None = None,
        shapes: ShapeSources | None = None,
    ) -> None:
        self._device = device
        self._functions = functions
        self._owner = owner
        self._shapes = shapes or ShapeSources()  # by node, so all owners may share it
        self._factories: dict[FuncAttr | None, KernelFactory] = {}

    def create(self, node: Node, scheduled: ScheduledBody) -> OpKernel:
        """Return the kernel of a node of a body.

        Raises:
            OpError: there is none, or it rejects the node.
        """
        owner = self._owner if scheduled.call is None else scheduled.call
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
        return KernelFactory(functions.host, self._device, functions, segment, self._shapes)
