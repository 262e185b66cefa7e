"""`SourceHandles`: the variables that nodes name, or that their kernels keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.spi import OpKernelContext

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.spi import Device, ExecutorArgs, OpKernel


class SourceHandles:
    """Looks up the variables of some nodes, again whenever a variable was removed.

    Threads: any may call; two that look up at the same moment store equal results.

    Args:
        kernels: the kernels of the nodes.
        device: the device that holds the variables.
    """

    def __init__(self, kernels: Iterable[OpKernel], device: Device) -> None:
        self._kernels = list(kernels)
        self._resources = device.resource_mgr
        self._cached: tuple[int, list[Any]] | None = None

    def of(self, args: ExecutorArgs) -> list[Any]:
        """Return the handle or variable of each node."""
        generation = self._resources.generation
        cached = self._cached
        if cached is None or cached[0] != generation:
            handles = [
                kernel.compute(OpKernelContext(args, kernel))
                if kernel.variable is None
                else kernel.variable
                for kernel in self._kernels
            ]
            cached = self._cached = generation, handles
        return cached[1]
