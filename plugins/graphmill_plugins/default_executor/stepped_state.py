"""`SteppedState`: a run that processes one node each time its driver calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from graphmill.errors import CancelledError
from graphmill.spi import DEAD, OpKernelContext, check_outputs, read_refs
from graphmill.spi.executors import (
    Caller,
    DrivenArgs,
    FrameProgress,
    NodeInstance,
    PendingCount,
    SteppableRun,
)
from graphmill_plugins.default_executor.executor_state import WAITING, ExecutorState
from graphmill_plugins.default_executor.iteration_queue import IterationQueue
from graphmill_plugins.default_executor.propagator import SimplePropagator

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from graphmill.errors import OpError
    from graphmill.spi import Device, Graph, Node
    from graphmill.spi.executors import DoneCallback
    from graphmill_plugins.default_executor.graph_view import FrameView, NodeItem
    from graphmill_plugins.default_executor.propagator import Ready
    from graphmill_plugins.default_executor.reporting_propagator import (
        ReportingPropagator,
        ReportingSimplePropagator,
    )
    from graphmill_plugins.default_executor.stepping_executor import SteppingExecutor


class SteppedState(ExecutorState, SteppableRun):
    """One run of a graph, processed node by node; kernels run in the driving thread.

    A call that blocks its step (`FunctionLibraryRuntime.run`) has an event loop of its own, so it
    cannot be suspended: it runs at once, and its nodes are only reported.

    Threads: as `ExecutorState`.
    """

    __slots__ = ("_awaited", "_calling", "_driven", "_has_ended", "_is_suspended", "_queue")

    def __init__(self, executor: SteppingExecutor, args: DrivenArgs, done: DoneCallback) -> None:
        def ended(error: OpError | None) -> None:
            self._has_ended = True
            args.driver.run_ended(self, error)
            done(error)

        super().__init__(executor, args, ended)
        self._driven = args
        self._queue = IterationQueue()
        self._ready = cast("Ready", self._queue)
        self._is_suspended = args.runner is args.driven_by
        self._has_ended = False
        self._calling: tuple[NodeItem, Any] | None = None
        self._awaited: list[tuple[NodeItem, Any]] = []
        self._reporting.report = self._report

    @property
    def _reporting(self) -> ReportingPropagator | ReportingSimplePropagator:
        return cast("ReportingPropagator | ReportingSimplePropagator", self._propagator)

    @property
    def graph(self) -> Graph:
        """The graph that it runs."""
        return cast("SteppingExecutor", self._executor).graph

    @property
    def device(self) -> Device:
        """The device of the graph."""
        return self._executor.params.device

    @property
    def caller(self) -> Caller | None:
        """The node that called the function; None for a partition of the step."""
        return self._driven.caller

    @property
    def has_ended(self) -> bool:
        """Whether it has called its `done`."""
        return self._has_ended

    def constants(self) -> Mapping[Node, Any]:
        """Return the values of the nodes that are constant and never run."""
        entries = self._executor.view.root_frame.initial_inputs
        return {
            item.node: entries[item.first_edges[0][0]]
            for item in self._executor.view.items
            if item.is_constant and item.first_edges
        }

    def next_ready(self) -> NodeInstance | None:
        """Return the node that `run_next` would process; None if no node is ready."""
        entry = self._queue.next()
        return None if entry is None else _instance(*entry)

    def ready(self) -> list[NodeInstance]:
        """Return all ready nodes, the next one first."""
        return [_instance(*entry) for entry in self._queue.entries()]

    def in_flight(self) -> list[NodeInstance]:
        """Return the nodes whose kernels have been called and are not done."""
        return [NodeInstance(item.node, iteration.name) for item, iteration in self._awaited]

    def pending(self) -> list[PendingCount]:
        """Return the counters of all nodes that are not ready, in unfinished iterations."""
        return [
            PendingCount(item.node, iteration.name, pending, dead)
            for view, iteration, dead_counts in self._iterations()
            for item, pending, dead in zip(view.items, iteration.pending, dead_counts, strict=True)
            if pending
        ]

    def frames(self) -> list[FrameProgress]:
        """Return the frames that are not done, without the root frame."""
        propagator = self._propagator
        if isinstance(propagator, SimplePropagator):
            return []
        return [
            FrameProgress(
                frame.name,
                tuple(frame.iterations),
                frame.iteration_count,
                frame.view.parallel_iterations,
                frame.num_pending_inputs,
                tuple(item.node.name for item, _ in frame.deferred),
            )
            for frame in propagator.frames.values()
        ]

    def run_next(self) -> None:
        """Process the next ready node; an error or interrupt of its kernel ends the run."""
        try:
            error = self._run_one()
        except KeyboardInterrupt:
            item, _ = cast("tuple[NodeItem, Any]", self._calling)
            self._fail(CancelledError("the node was interrupted", node=item.node.name))
            self._finish_if_done()
            raise
        if error is not None:
            self._fail(error)
        self._finish_if_done()

    def _iterations(self) -> Iterator[tuple[FrameView, Any, list[int]]]:
        """Yield layout, counters and dead counts of each unfinished iteration."""
        propagator = self._propagator
        if isinstance(propagator, SimplePropagator):
            view = propagator.view.root_frame
            yield view, propagator, view.no_dead
            return
        root = [] if propagator.root is None else [propagator.root]
        for frame in (*root, *propagator.frames.values()):
            for iteration in frame.iterations.values():
                yield frame.view, iteration, iteration.dead

    def _report(self, item: NodeItem, iteration: Any, is_dead: bool, outputs: Any) -> None:
        instance = NodeInstance(item.node, iteration.name, is_dead)
        self._driven.driver.node_done(self, instance, outputs)

    def start(self) -> None:
        """Announce the run; process nothing yet, unless the run cannot be suspended."""
        self._driven.driver.run_started(self)
        super().start()

    def _run_ready(self) -> OpError | None:
        error = None
        while self._queue and not self._is_suspended and error is None:
            error = self._run_one()
        return error

    def _run_one(self) -> OpError | None:
        """Process the next ready node; return the error that ends the run, or None."""
        item, iteration, is_dead = self._queue.pop()
        inputs = iteration.inputs[item.inputs]
        iteration.inputs[item.inputs] = item.cleared
        if self.args.is_cancelled:
            return self._cancelled_after(item, iteration)
        self._calling = item, iteration
        try:
            self._process(item, iteration, inputs, is_dead=is_dead)
        except Exception as error:  # noqa: BLE001 - the border to plugins' code: all becomes typed
            return self._error_at(item, iteration, error, inputs)
        return None

    def _process(self, item: NodeItem, iteration: Any, inputs: list[Any], *, is_dead: bool) -> None:
        propagator, ready = self._propagator, self._ready
        if is_dead and not item.is_transfer:
            propagator.node_done(item, iteration, True, item.dead_outputs, ready)
            return
        if not (is_dead or item.is_retval):
            instance = NodeInstance(item.node, iteration.name, False, inputs)
            outputs = self._driven.driver.outputs_of(self, instance)
            if outputs is not None:
                propagator.node_done(item, iteration, False, outputs, ready)
                return
        result = self._call(item, iteration, [DEAD] * item.num_inputs if is_dead else inputs)
        if result is WAITING:
            return
        outputs = (result,) if item.num_outputs == 1 else result if item.num_outputs else ()
        if item.num_outputs and not item.forwards:
            check_outputs(item.kernel, item.output_dtypes, outputs)  # type: ignore[arg-type]
        propagator.node_done(item, iteration, False, outputs, ready)

    def _call(self, item: NodeItem, iteration: Any, inputs: list[Any]) -> Any:
        """Call a kernel; its context names it as the caller of functions."""
        if not item.takes_context or item.is_retval:
            return super()._call(item, iteration, inputs)
        if item.ref_inputs:
            read_refs(item.node, item.ref_inputs, inputs)
        args = self._driven.of_node(Caller(self, item.node, iteration.name))
        context = OpKernelContext(args, item.kernel, iteration)  # type: ignore[arg-type]
        if item.is_async:
            return self._call_async(item, iteration, [context, *inputs])
        return item.compute(context, *inputs)  # type: ignore[misc]

    def _note_waiting(self, item: NodeItem) -> None:
        super()._note_waiting(item)
        self._awaited.append(cast("tuple[NodeItem, Any]", self._calling))

    def _posted(
        self, item: NodeItem, iteration: Any, outputs: Any, error: BaseException | None
    ) -> None:
        self._awaited.remove((item, iteration))
        super()._posted(item, iteration, outputs, error)

    def _finish_if_done(self) -> None:
        if self._error is not None or not self._queue:
            super()._finish_if_done()

    def _error_at(
        self,
        item: NodeItem,
        iteration: Any,
        error: BaseException,
        inputs: Sequence[Any] | None = None,
    ) -> OpError:
        status = super()._error_at(item, iteration, error, inputs)
        instance = NodeInstance(item.node, iteration.name, False, inputs or ())
        self._driven.driver.node_failed(self, instance, status)
        return status


def _instance(item: NodeItem, iteration: Any, is_dead: bool) -> NodeInstance:
    return NodeInstance(item.node, iteration.name, is_dead, tuple(iteration.inputs[item.inputs]))
