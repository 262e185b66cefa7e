"""Steps that are driven node by node: the interface between a debugger and an executor.

An executor that can be stepped gets `DrivenArgs`. It then processes a ready node only when it is
asked to, and reports each node that is done to the driver of the step. Everything happens in the
thread that drives the step, so a step is suspended between two nodes without a second thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from graphmill.runtime.executor import ExecutorArgs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphmill.errors import OpError
    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.runtime.devices.device import Device
    from graphmill.runtime.steps.call_frame import CallFrame
    from graphmill.runtime.steps.step_runner import StepRunner

STEPPING_EXECUTOR: Final = "STEPPING"
"""The executor type whose runs can be stepped."""


class NodeInstance(NamedTuple):
    """A node in one iteration of its frame.

    Attributes:
        node: the node.
        iteration: frame and iteration, such as `outer:3/inner:0`; "" outside of loops.
        is_dead: whether it is dead, so that it does not run.
        inputs: its inputs, if they are known; None for an input that has been consumed.
    """

    node: Node
    iteration: str
    is_dead: bool = False
    inputs: Sequence[Any] = ()


class PendingCount(NamedTuple):
    """The counters of a node that is not ready.

    Attributes:
        node: the node.
        iteration: frame and iteration; "" outside of loops.
        pending: what it waits for: the number of edges; for a `Merge`, bit 0 is set until a live
            input has arrived, and each control edge counts 2.
        dead: the number of dead edges that have arrived.
    """

    node: Node
    iteration: str
    pending: int
    dead: int


class FrameProgress(NamedTuple):
    """A frame that is not done.

    Attributes:
        name: its full name, with the iteration of each frame around it; "" for the root frame.
        iterations: the numbers of its unfinished iterations.
        latest: the number of the latest iteration that has started.
        parallel_iterations: how many iterations may be unfinished at once.
        awaited_enters: how many of its `Enter` nodes have not arrived.
        deferred: the names of the `NextIteration` nodes whose values wait for an older iteration.
    """

    name: str
    iterations: tuple[int, ...]
    latest: int
    parallel_iterations: int
    awaited_enters: int
    deferred: tuple[str, ...]


class SteppableRun(ABC):
    """One run of a graph, a partition or the body of a function, that is processed node by node.

    Threads: belongs to the thread that drives the step.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def graph(self) -> Graph:
        """The graph that it runs."""

    @property
    @abstractmethod
    def device(self) -> Device:
        """The device of the graph."""

    @property
    @abstractmethod
    def caller(self) -> Caller | None:
        """The node that called the function; None for a partition of the step."""

    @property
    @abstractmethod
    def has_ended(self) -> bool:
        """Whether it has called its `done`."""

    @abstractmethod
    def constants(self) -> Mapping[Node, Any]:
        """Return the values of the nodes that are constant and never run."""

    @abstractmethod
    def next_ready(self) -> NodeInstance | None:
        """Return the node that `run_next` would process; None if no node is ready."""

    @abstractmethod
    def ready(self) -> list[NodeInstance]:
        """Return all ready nodes, the next one first."""

    @abstractmethod
    def in_flight(self) -> list[NodeInstance]:
        """Return the nodes whose kernels have been called and are not done."""

    @abstractmethod
    def pending(self) -> list[PendingCount]:
        """Return the counters of all nodes that are not ready, in unfinished iterations."""

    @abstractmethod
    def frames(self) -> list[FrameProgress]:
        """Return the frames that are not done, without the root frame."""

    @abstractmethod
    def run_next(self) -> None:
        """Process the next ready node; an error of its kernel ends the run."""


class Caller(NamedTuple):
    """The node that called a function.

    Attributes:
        run: the run in which the node is.
        node: the node.
        iteration: its frame and iteration; "" outside of loops.
    """

    run: SteppableRun
    node: Node
    iteration: str


class StepDriver(ABC):
    """Drives a step, and is notified of its events.

    Threads: the executors call it in the thread that drives the step.
    """

    @abstractmethod
    def run_started(self, run: SteppableRun) -> None:
        """Note that a partition or a call of a function has started."""

    @abstractmethod
    def node_done(self, run: SteppableRun, instance: NodeInstance, outputs: Sequence[Any]) -> None:
        """Note that a node is done; called before its outputs are propagated.

        Args:
            run: its run.
            instance: the node; its inputs are not known.
            outputs: its outputs, `DEAD` for dead ones.
        """

    @abstractmethod
    def node_failed(self, run: SteppableRun, instance: NodeInstance, error: OpError) -> None:
        """Note that a node failed, with the inputs that it had if they are known."""

    def outputs_of(self, run: SteppableRun, instance: NodeInstance) -> Sequence[Any] | None:
        """Return the outputs of a node that is about to run, instead of calling its kernel.

        By default, this returns None: the kernel is called. An `OpError` fails the node.

        Args:
            run: its run.
            instance: the node, which is not dead.
        """
        del run, instance
        return None

    @abstractmethod
    def run_ended(self, run: SteppableRun, error: OpError | None) -> None:
        """Note that a run has ended."""


class DrivenArgs(ExecutorArgs):
    """The arguments of a step that is driven node by node.

    Attributes:
        driver: drives the step.
        driven_by: the event loop through which the driver drives; a call with another one, which
            blocks the step, runs to its end at once.
        caller: the node that called the function; None for the partitions of the step.
    """

    __slots__ = ("caller", "driven_by", "driver")

    def __init__(
        self, step_id: int, call_frame: CallFrame, driver: StepDriver, **options: Any
    ) -> None:
        super().__init__(step_id, call_frame, **options)
        self.driver = driver
        self.driven_by: StepRunner = self.runner
        self.caller: Caller | None = None

    def for_call(self, call_frame: CallFrame) -> DrivenArgs:
        """Return the arguments of a function call made by a node of this run."""
        args: DrivenArgs = super().for_call(call_frame)  # type: ignore[assignment]
        args.driver, args.driven_by, args.caller = self.driver, self.driven_by, self.caller
        return args

    def of_node(self, caller: Caller) -> DrivenArgs:
        """Return the arguments for the context of one node, whose calls then name their caller."""
        args = self.for_call(self.call_frame)
        args.call_depth = self.call_depth
        args.caller = caller
        return args
