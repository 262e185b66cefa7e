"""`DefaultExecutor`: the immutable half of the DEFAULT executor; `ExecutorState` is a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.runtime.executor import Executor, ExecutorFactory
from graphmill_plugins.default_executor.executor_state import ExecutorState
from graphmill_plugins.default_executor.graph_view import GraphView

if TYPE_CHECKING:
    from graphmill.graph.graph import Graph
    from graphmill.runtime.executor import DoneCallback, ExecutorArgs, LocalExecutorParams


class DefaultExecutor(Executor):
    """Runs a graph in data-flow order: a node as soon as all that it waits for has arrived.

    Threads: immutable after construction, so any number of runs may overlap.

    Args:
        params: device and kernels.
        graph: the partition.
        uses_pool: whether expensive kernels may run in the step's thread pool.
    """

    def __init__(
        self, params: LocalExecutorParams, graph: Graph, *, uses_pool: bool = True
    ) -> None:
        self.params = params
        self.uses_pool = uses_pool
        self.view = GraphView(graph, params.create_kernel)

    def run_async(self, args: ExecutorArgs, done: DoneCallback) -> None:
        """Start a run, and go on until it is done or must wait."""
        ExecutorState(self, args, done).start()

    def close(self) -> None:
        """Give the kernels back."""
        delete = self.params.delete_kernel
        if delete is not None:
            for item in self.view.items:
                if item.kernel is not None:
                    delete(item.kernel)


class DefaultExecutorFactory(ExecutorFactory):
    """Makes `DefaultExecutor`s; registered as `""` and `"DEFAULT"` (row E1)."""

    def new_executor(self, params: LocalExecutorParams, graph: Graph) -> Executor:
        """Return an executor of `graph`.

        Raises:
            InvalidArgumentError: the graph's frames are badly nested.
            OpError: a kernel refused its node.
        """
        return DefaultExecutor(params, graph)


class InlineExecutorFactory(ExecutorFactory):
    """Makes executors that do all that DEFAULT does, and start no thread; registered as `"INLINE"`.

    Every kernel runs in the caller's thread. What other threads of the program do to wake a waiting
    kernel (an enqueue of another session, say) still counts.
    """

    def new_executor(self, params: LocalExecutorParams, graph: Graph) -> Executor:
        """Return an executor of `graph`; raises what `DefaultExecutorFactory` does."""
        return DefaultExecutor(params, graph, uses_pool=False)
