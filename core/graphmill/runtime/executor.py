"""The interface of executors, each of which runs one partition of a graph (clauses E1, E2).

Semantics: `tensorflow/core/common_runtime/executor.h` and `local_executor_params.h`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from graphmill.errors import NotFoundError
from graphmill.runtime.process.fork import fork_safe_lock
from graphmill.runtime.steps.cancel_grace import CancellationGracePeriod
from graphmill.runtime.steps.cancellation import CancellationManager
from graphmill.runtime.steps.step_runner import StepRunner

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.errors import OpError
    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.proto.config_pb2 import ConfigProto
    from graphmill.registry import Provenance
    from graphmill.runtime.collectives import CollectiveExecutor
    from graphmill.runtime.devices.device import Device
    from graphmill.runtime.kernels.op_kernel import OpKernel
    from graphmill.runtime.rendezvous import Rendezvous
    from graphmill.runtime.steps.call_frame import CallFrame
    from graphmill.runtime.steps.step_container import StepContainer
    from graphmill.runtime.steps.step_stats import StepStatsCollector

_making_collectives = fork_safe_lock()

DoneCallback: TypeAlias = "Callable[[OpError | None], None]"
"""The callback that an executor calls once at the end of a run, with the error or None."""


def _no_executor(name: str) -> ExecutorFactory:
    raise NotFoundError(
        f"the executor {name!r} was requested, but these parameters were not created by a host"
    )


def _local_rendezvous(step_id: int) -> Rendezvous:
    from graphmill.runtime.rendezvous import IntraProcessRendezvous

    del step_id
    return IntraProcessRendezvous()


@dataclass(frozen=True, slots=True)
class LocalExecutorParams:
    """The parameters with which an executor is created; they apply to all its runs.

    Attributes:
        device: the device of the partition.
        create_kernel: returns the kernel of a node, new or shared.
        delete_kernel: releases a kernel when the executor is closed, or None.
        function_library: the `FunctionLibraryRuntime`, or None.
        config: the session's `ConfigProto`, or None.
        find_executor: returns the factory of another executor type, for executors that wrap one.
        new_rendezvous: creates a rendezvous, given the id of the step, for an executor that divides
            its graph further; the session's transport chooses the class.
    """

    device: Device
    create_kernel: Callable[[Node], OpKernel]
    delete_kernel: Callable[[OpKernel], None] | None = None
    function_library: Any = None
    config: ConfigProto | None = None
    find_executor: Callable[[str], ExecutorFactory] = _no_executor
    new_rendezvous: Callable[[int], Rendezvous] = _local_rendezvous


class ExecutorArgs:
    """The arguments of one run; the fields are those of `Executor::Args` in TensorFlow.

    A function call in a step has its own arguments, created by `for_call`, which share everything
    but the call frame with those of the step.

    Attributes:
        step_id: id of the step.
        call_frame: arguments and results.
        runner: the event loop of the step.
        parent_cancellation: the manager that can cancel the step from outside.
        own_cancellation: the step's own manager; None until first use.
        own_collectives: the step's executor of collectives; None until first use.
        stats_collector: collects node statistics; None if they were not requested.
        call_depth: the nesting depth of function calls.
        iteration: the iterations around a function call, as `outer:3/inner:0`; empty outside of
            loops and in steps that are not traced.
        num_awaited: how many kernels of this run (of all its partitions, but not of functions that
            it calls) run in other threads or wait; executors count, in the driving thread.
        receiving: how many of these are receives, by the run that waits for them.
            `DeadlockDetector` reads both.
    """

    __slots__ = (
        "_root",
        "call_depth",
        "call_frame",
        "deadline",
        "iteration",
        "num_awaited",
        "own_cancellation",
        "own_collectives",
        "parent_cancellation",
        "receiving",
        "rendezvous",
        "runner",
        "session_handle",
        "session_state",
        "start_time",
        "stats_collector",
        "step_container",
        "step_id",
        "sync_on_finish",
    )

    def __init__(
        self,
        step_id: int,
        call_frame: CallFrame,
        *,
        runner: StepRunner | None = None,
        cancellation_manager: CancellationManager | None = None,
        stats_collector: StepStatsCollector | None = None,
        rendezvous: Any = None,
        session_state: Any = None,
        session_handle: str = "",
        step_container: StepContainer | None = None,
        sync_on_finish: bool = False,
        start_time: float = 0.0,
        deadline: float | None = None,
        collectives: CollectiveExecutor | None = None,
    ) -> None:
        self.step_id = step_id
        self.call_frame = call_frame
        self.runner = StepRunner() if runner is None else runner
        self.parent_cancellation = cancellation_manager
        self.stats_collector = stats_collector
        self.rendezvous = rendezvous
        self.session_state = session_state
        self.session_handle = session_handle
        self.step_container = step_container
        self.sync_on_finish = sync_on_finish
        self.start_time = start_time
        self.deadline = deadline
        self.call_depth = 0
        self.iteration = ""
        self.num_awaited = 0
        self.receiving: dict[Receiver, int] = {}
        # The step's arguments if this is a function call; else None, as a cycle would keep results
        # alive until the garbage collector runs.
        self._root: ExecutorArgs | None = None
        self.own_cancellation: CancellationManager | None = None
        self.own_collectives = collectives

    @property
    def cancellation_manager(self) -> CancellationManager:
        """The step's own cancellation manager, created on first use."""
        root = self._root or self
        if root.own_cancellation is None:
            root.own_cancellation = CancellationManager(root.parent_cancellation)
        return root.own_cancellation

    @property
    def collectives(self) -> CollectiveExecutor:
        """The executor of the step's collectives, created on first use."""
        root = self._root or self
        if root.own_collectives is None:
            from graphmill.runtime.collectives import LocalCollectives  # few steps have any

            # Two kernels that ask at the same time get the same one.
            with _making_collectives:
                if root.own_collectives is None:
                    root.own_collectives = LocalCollectives()
        return root.own_collectives

    @property
    def is_cancelled(self) -> bool:
        """Whether the step has been cancelled, from outside or by its first error."""
        parent, own = self.parent_cancellation, (self._root or self).own_cancellation
        return (parent is not None and parent.is_cancelled) or (
            own is not None and own.is_cancelled
        )

    def start_cancel(self, reason: OpError) -> None:
        """Cancel everything that waits on behalf of the step, if its manager was ever used."""
        own = (self._root or self).own_cancellation
        if own is not None:
            own.start_cancel(reason)

    def cancel_reason(self) -> OpError | None:
        """Return the error that cancelled the step, or None."""
        own, parent = (self._root or self).own_cancellation, self.parent_cancellation
        return (own and own.reason) or (parent and parent.reason) or None

    def close(self) -> None:
        """Detach the step from its parent cancellation; called once, when the step has ended."""
        if self.own_cancellation is not None:
            self.own_cancellation.close()

    def for_call(self, call_frame: CallFrame) -> ExecutorArgs:
        """Return the arguments of a function call made by a node of this run."""
        args = ExecutorArgs.__new__(type(self))  # copy.copy takes twenty times as long
        args._root = self._root or self  # noqa: SLF001 - of the same class
        args.step_id = self.step_id
        args.runner = self.runner
        args.parent_cancellation = self.parent_cancellation
        args.own_cancellation = self.own_cancellation
        args.own_collectives = self.own_collectives
        args.stats_collector = self.stats_collector
        args.rendezvous = self.rendezvous
        args.session_state = self.session_state
        args.session_handle = self.session_handle
        args.step_container = self.step_container
        args.start_time = self.start_time
        args.deadline = self.deadline
        args.call_frame = call_frame
        args.call_depth = self.call_depth + 1
        args.iteration = self.iteration
        args.sync_on_finish = False
        args.num_awaited = 0
        args.receiving = {}
        return args


class Receiver(Protocol):
    """The run of an executor, as seen by the deadlock detector."""

    @property
    def device_name(self) -> str:
        """Name of the device of the partition."""
        ...

    def describe_pending(self) -> str:
        """Describe what each of the run's nodes waits for."""
        ...

    def iteration_names(self) -> dict[str, str]:
        """Return the names that messages use, by the frame and iteration of rendezvous keys."""
        ...


class Executor(ABC):
    """Runs one partition; created once, and run any number of times, concurrently too.

    Contract of `run_async`: `done` is called exactly once, with None or the first error, after the
    last node that was started has finished; possibly before `run_async` returns, and always in the
    thread that drives `args.runner`.

    Attributes:
        owner: the plugin that supplied it; set by the session that created it.
        honours_deadlines: a promise that `run_async` returns soon after the run was cancelled, so
            that a step with a deadline needs no thread that its caller could abandon.
    """

    owner: Provenance | None = None
    honours_deadlines: bool = False

    @abstractmethod
    def run_async(self, args: ExecutorArgs, done: DoneCallback) -> None:
        """Start a run; return when it is done or must wait."""

    def run(self, args: ExecutorArgs) -> None:
        """Run and wait.

        Raises:
            OpError: the first error of the run, or the reason of its cancellation if the run does
                not end within the grace period.
        """
        outcome: list[OpError | None] = []
        self.run_async(args, outcome.append)
        if not outcome:
            with CancellationGracePeriod(args, [self]):
                args.runner.run_until(lambda: bool(outcome))
        if outcome[0] is not None:
            raise outcome[0]

    def close(self) -> None:  # noqa: B027 - not every executor holds resources
        """Release the executor's resources."""


class ExecutorBarrier:
    """Combines the `done` calls of all partitions of a step into one (clauses E8, E9).

    The first error aborts the rendezvous and cancels the other partitions, whose errors are then
    marked as derived. Semantics: `tensorflow/core/common_runtime/executor.h`.

    Threads: like the executors, it belongs to the thread that drives the step.

    Attributes:
        error: the first error, or None.
        is_done: whether all partitions have ended.
    """

    __slots__ = ("_args", "_left", "_then", "error", "is_done")

    def __init__(
        self, count: int, args: ExecutorArgs, then: Callable[[OpError | None], None] | None = None
    ) -> None:
        self._args = args
        self._left = count
        self._then = then
        self.error: OpError | None = None
        self.is_done = False

    def partition_done(self, error: OpError | None) -> None:
        """Record the end of a partition; passed to its executor as `done`."""
        self._left -= 1
        if error is not None:
            if self.error is None:
                self.error = error
                if self._args.rendezvous is not None:
                    self._args.rendezvous.start_abort(error)
                self._args.start_cancel(error)
            elif self.error.is_derived and not error.is_derived:
                self.error = error  # a partition that was only cancelled may end first
            elif error is not self.error:
                error.is_derived = True
        if not self._left:
            self.is_done = True
            if self._then is not None:
                self._then(self.error)


class ExecutorFactory(ABC):
    """Creates executors of one type; registered under its name, which `executor_type` selects.

    Attributes:
        needs_passes: names of graph passes that its executors require; creating a session fails if
            one is missing.
        forbids_passes: names of graph passes that must not run on its graphs.
        observes_kernels: whether its executors must see each call of a kernel, so that no graph of
            its sessions is compiled. Set it to False if they run any node, compiled ones included.
    """

    needs_passes: tuple[str, ...] = ()
    forbids_passes: tuple[str, ...] = ()
    observes_kernels: bool = True

    @abstractmethod
    def new_executor(self, params: LocalExecutorParams, graph: Graph) -> Executor:
        """Return an executor of `graph`.

        Raises:
            InvalidArgumentError: this type of executor cannot run the graph; the message says why.
        """
