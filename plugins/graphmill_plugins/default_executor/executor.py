"""`DefaultExecutor`: the immutable part of the DEFAULT executor; `ExecutorState` is one run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from graphmill.spi import Executor, ExecutorFactory
from graphmill.spi.executors import is_validation_on
from graphmill_plugins.default_executor.executor_state import ExecutorState, error_at
from graphmill_plugins.default_executor.graph_view import GraphView
from graphmill_plugins.default_executor.propagator import Propagator, SimplePropagator
from graphmill_plugins.default_executor.single_kernel import single_kernel
from graphmill_plugins.default_executor.validating_propagator import (
    ValidatingPropagator,
    ValidatingSimplePropagator,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ExecutorArgs, Graph, LocalExecutorParams
    from graphmill.spi.executors import DoneCallback
    from graphmill_plugins.default_executor.propagator import Ready


NODE_LOGGER: Final = "graphmill.executor"
"""Name of the logger of the nodes that run."""
MEMORY_LOGGER: Final = "graphmill.memory"
"""Name of the logger of the memory of their outputs."""


class DefaultExecutor(Executor):
    """Runs a graph in data-flow order: each node as soon as its inputs have arrived.

    Threads: immutable after construction, so any number of runs may overlap.

    Args:
        params: device and kernels.
        graph: the partition.
        uses_pool: whether expensive kernels may run in the step's thread pool.
        new_queue: creates the ready queue of a run. A list, which runs the newest node first, is
            the fastest: a node's inputs are then still in the processor's cache.
        validates: whether to check the invariants of the run after each node.
    """

    honours_deadlines = True

    def __init__(
        self,
        params: LocalExecutorParams,
        graph: Graph,
        *,
        uses_pool: bool = True,
        new_queue: Callable[[], Ready] = list,
        validates: bool = False,
    ) -> None:
        self.params = params
        self.uses_pool = uses_pool
        self.new_queue = new_queue
        self.view = GraphView(graph, params.create_kernel)
        self.propagator_type: type[Propagator | SimplePropagator]
        if self.view.has_control_flow:
            self.propagator_type = ValidatingPropagator if validates else Propagator
        else:
            self.propagator_type = ValidatingSimplePropagator if validates else SimplePropagator

        is_logged = _is_logged()
        self._state_type = _logged_state(self.view) if is_logged else ExecutorState

        # The fast path neither validates nor logs, nor uses another queue; `run_async` excludes
        # tracing.
        is_plain = new_queue is list and not validates and not is_logged
        self._single_kernel = single_kernel(self.view, params.device.name) if is_plain else None

    def run_async(self, args: ExecutorArgs, done: DoneCallback) -> None:
        """Start a run, and continue until it is done or blocks."""
        one = self._single_kernel
        if one is None or args.stats_collector is not None or args.sync_on_finish:
            self._state_type(self, args, done).start()
            return
        try:
            error = one.run(args)
        except Exception as raised:  # noqa: BLE001 - the border to plugins' code: all becomes typed
            error = error_at(args, self.params.device.name, one.item, "", raised)
        done(error)

    def close(self) -> None:
        """Release the kernels."""
        delete = self.params.delete_kernel
        if delete is not None:
            for item in self.view.items:
                if item.kernel is not None:
                    delete(item.kernel)


def _is_logged() -> bool:
    """Return whether a logger of executors has the level `DEBUG` itself.

    That of a parent is not enough, because each node costs several lines.
    """
    logging = sys.modules.get("logging")
    if logging is None:
        return False  # nobody has set a level
    get_logger = getattr(logging, "getLogger", None)  # absent while another thread imports it
    return get_logger is not None and any(
        0 < get_logger(name).level <= logging.DEBUG for name in (NODE_LOGGER, MEMORY_LOGGER)
    )


def _logged_state(view: GraphView) -> type[ExecutorState]:
    """Return the class of runs that log each node; no node is called without its state."""
    from graphmill_plugins.default_executor.logged_state import LoggedState  # off by default

    for item in view.items:
        item.is_plain = False
    return LoggedState


class DefaultExecutorFactory(ExecutorFactory):
    """Makes `DefaultExecutor`s; registered as `""` and `"DEFAULT"` (clause E1)."""

    observes_kernels = False

    def new_executor(self, params: LocalExecutorParams, graph: Graph) -> Executor:
        """Return an executor of `graph`.

        Raises:
            InvalidArgumentError: the graph's frames are badly nested.
            OpError: a kernel refused its node.
        """
        return DefaultExecutor(params, graph, validates=is_validation_on())


class InlineExecutorFactory(ExecutorFactory):
    """Makes executors like DEFAULT that start no threads; registered as `"INLINE"`.

    Every kernel runs in the caller's thread. Other threads of the program may still wake a waiting
    kernel, for example by an enqueue in another session. The compiler's passes are disabled, as
    compilation needs a thread.
    """

    forbids_passes = ("jit_functionalize", "jit_clusters")
    observes_kernels = False

    def new_executor(self, params: LocalExecutorParams, graph: Graph) -> Executor:
        """Return an executor of `graph`; raises what `DefaultExecutorFactory` does."""
        return DefaultExecutor(params, graph, uses_pool=False, validates=is_validation_on())
