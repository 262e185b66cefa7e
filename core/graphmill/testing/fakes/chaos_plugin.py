"""A plugin that stresses executors: some kernels end in other threads, in an unpredictable order.

`Neg` counts as expensive, so it may run in the step's thread pool. `Abs` is asynchronous and ends
in one of the plugin's own threads. The values do not change, only the order of execution.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.deprecations import renamed_name
from graphmill.plugin.markers import hookimpl
from graphmill.runtime.kernels.kernel import kernel
from graphmill.runtime.threads.thread_pool import ThreadPool

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.plugin.registrars import KernelRegistrar
    from graphmill.runtime.kernels.op_kernel_context import OpKernelContext
    from graphmill.typing import ArrayNamespace, Value

_PRIORITY = 100


class ChaosPlugin:
    """The plugin; pass it to a `Host` and close it afterwards.

    Args:
        num_threads: the number of threads in which `Abs` kernels end.
    """

    def __init__(self, num_threads: int = 2) -> None:
        self._pool = ThreadPool(num_threads, "chaos")

    def close(self) -> None:
        """Stop the threads."""
        self._pool.close()

    @hookimpl
    def graphmill_register_kernels(self, kernels: KernelRegistrar) -> None:
        """Register the kernels with a higher priority than existing ones."""

        @kernel("Neg", expensive=True, priority=_PRIORITY)
        def neg(xp: ArrayNamespace, x: Value) -> Value:
            return xp.negative(x)

        @kernel("Abs", async_=True, priority=_PRIORITY)
        def absolute(ctx: OpKernelContext, x: Value, *, done: Callable[..., Any]) -> None:
            self._pool.schedule(lambda: done(ctx.xp.abs(x)))

        kernels.add(neg)
        kernels.add(absolute)


def __getattr__(name: str) -> Any:
    """Resolve old names of this module."""
    return renamed_name(__name__, name)
