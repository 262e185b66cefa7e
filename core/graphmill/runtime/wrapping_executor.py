"""Executors that run another executor on modified kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from graphmill.errors import OpError
from graphmill.runtime.executor import Executor

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.runtime.executor import DoneCallback, ExecutorArgs, LocalExecutorParams
    from graphmill.runtime.kernels.kernel import OpKernel


class WrappingExecutor(Executor):
    """Runs another executor; a subclass is called as each run begins and has ended.

    Args:
        inner: what runs the graph; `executor_over` makes one.
    """

    def __init__(self, inner: Executor) -> None:
        self.inner = inner

    def begin(self, args: ExecutorArgs) -> None:
        """Note that a run of a partition or a function begins; an `OpError` refuses it."""

    def end(self, args: ExecutorArgs) -> None:
        """Note that it has ended; called once for each run that `begin` did not refuse."""

    def run_async(self, args: ExecutorArgs, done: DoneCallback) -> None:
        """Start a run of the inner executor, between `begin` and `end`."""
        try:
            self.begin(args)
        except OpError as error:
            done(error)
            return

        def ended(error: OpError | None) -> None:
            self.end(args)
            done(error)

        self.inner.run_async(args, ended)

    def close(self) -> None:
        """Close the inner executor."""
        self.inner.close()


def executor_over(
    params: LocalExecutorParams,
    graph: Graph,
    wrap: Callable[[Node, OpKernel], OpKernel],
    executor_type: str = "DEFAULT",
) -> Executor:
    """Return an executor of another type, over kernels that `wrap` has changed.

    Args:
        params: what the wrapping executor was made with.
        graph: the partition.
        wrap: gives the kernel to be used for a node, from the node and its own kernel:
            `OpKernel.with_call` makes one, or the same where nothing is to be changed.
        executor_type: of the inner executor.
    """

    def create_kernel(node: Node) -> OpKernel:
        return wrap(node, params.create_kernel(node))

    factory = params.find_executor(executor_type)
    return factory.new_executor(replace(params, create_kernel=create_kernel), graph)
