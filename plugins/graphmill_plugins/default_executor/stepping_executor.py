"""`SteppingExecutor`: the DEFAULT executor for steps that are driven node by node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi import Executor, ExecutorFactory
from graphmill.spi.executors import DrivenArgs
from graphmill_plugins.default_executor.executor import DefaultExecutor
from graphmill_plugins.default_executor.executor_state import ExecutorState
from graphmill_plugins.default_executor.reporting_propagator import (
    ReportingPropagator,
    ReportingSimplePropagator,
)
from graphmill_plugins.default_executor.stepped_state import SteppedState

if TYPE_CHECKING:
    from graphmill.spi import ExecutorArgs, Graph, LocalExecutorParams
    from graphmill.spi.executors import DoneCallback


class SteppingExecutor(DefaultExecutor):
    """Runs a graph node by node on request; a step without a driver runs as with `INLINE`.

    Threads: as `DefaultExecutor`; each run belongs to the thread that drives its step.

    Args:
        params: device and kernels.
        graph: the partition or the body of a function.
    """

    def __init__(self, params: LocalExecutorParams, graph: Graph) -> None:
        super().__init__(params, graph, uses_pool=False)
        self.graph = graph
        has_control_flow = self.view.has_control_flow
        self.propagator_type = (
            ReportingPropagator if has_control_flow else ReportingSimplePropagator
        )

    def run_async(self, args: ExecutorArgs, done: DoneCallback) -> None:
        """Start a run; with `DrivenArgs`, its driver says when each node is processed."""
        if isinstance(args, DrivenArgs):
            SteppedState(self, args, done).start()
        else:
            ExecutorState(self, args, done).start()


class SteppingExecutorFactory(ExecutorFactory):
    """Makes `SteppingExecutor`s; registered as `"STEPPING"`.

    The compiler's passes are disabled, so that each node of the graph runs by itself.
    """

    forbids_passes = ("jit_functionalize", "jit_clusters")

    def new_executor(self, params: LocalExecutorParams, graph: Graph) -> Executor:
        """Return an executor of `graph`; raises what `DefaultExecutorFactory` does."""
        return SteppingExecutor(params, graph)
