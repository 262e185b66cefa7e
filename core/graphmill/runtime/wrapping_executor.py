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
    from graphmill.runtime.kernels.op_kernel import OpKernel


class WrappingExecutor(Executor):
    """Runs another executor, and calls hooks of a subclass before and after each run.

    Args:
        inner: the executor that runs the graph; `executor_over` creates one.
    """

    def __init__(self, inner: Executor) -> None:
        self.inner = inner

    def begin(self, args: ExecutorArgs) -> None:
        """Prepare a run of a partition or function; raise an `OpError` to refuse it."""

    def end(self, args: ExecutorArgs) -> None:
        """Finish a run; called once for each run that `begin` did not refuse."""

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
    """Return an executor of another type that runs the kernels returned by `wrap`.

    Args:
        params: the parameters of the wrapping executor.
        graph: the partition.
        wrap: takes a node and its kernel; returns the kernel to use, the same or a new one from
            `OpKernel.with_call`.
        executor_type: the type of the inner executor.
    """

    def create_kernel(node: Node) -> OpKernel:
        return wrap(node, params.create_kernel(node))

    factory = params.find_executor(executor_type)
    return factory.new_executor(replace(params, create_kernel=create_kernel), graph)
