"""The executor interface: what runs one partition of a graph (rows E1, E2).

Semantics: `tensorflow/core/common_runtime/executor.h` and `local_executor_params.h`.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.errors import OpError
    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.runtime.call_frame import CallFrame
    from graphmill.runtime.cancellation import CancellationManager
    from graphmill.runtime.device import Device
    from graphmill.runtime.kernel import OpKernel
    from graphmill.runtime.step_container import StepContainer
    from graphmill.runtime.step_stats import StepStatsCollector

    DoneCallback = Callable[[OpError | None], None]


@dataclass(frozen=True, slots=True)
class LocalExecutorParams:
    """What an executor is made with; the same for all its runs.

    Attributes:
        device: the device of the partition.
        create_kernel: makes (or finds) the kernel of a node.
        delete_kernel: gives a kernel back when the executor is dropped, or None.
        function_library: the `FunctionLibraryRuntime`, or None.
        session_metadata: name and version of the session, for logs, or None.
    """

    device: Device
    create_kernel: Callable[[Node], OpKernel]
    delete_kernel: Callable[[OpKernel], None] | None = None
    function_library: Any = None
    session_metadata: Any = None


class ExecutorArgs:
    """What one run is given; see the fields of `Executor::Args` in TensorFlow."""

    __slots__ = (
        "call_depth",
        "call_frame",
        "cancellation_manager",
        "collective_executor",
        "deadline",
        "rendezvous",
        "runner",
        "session_handle",
        "session_state",
        "start_time",
        "stats_collector",
        "step_container",
        "step_id",
        "sync_on_finish",
        "tensor_store",
    )

    def __init__(
        self,
        step_id: int,
        call_frame: CallFrame,
        *,
        cancellation_manager: CancellationManager | None = None,
        stats_collector: StepStatsCollector | None = None,
        rendezvous: Any = None,
        collective_executor: Any = None,
        session_state: Any = None,
        session_handle: str = "",
        tensor_store: Any = None,
        step_container: StepContainer | None = None,
        runner: Any = None,
        sync_on_finish: bool = False,
        start_time: float = 0.0,
        deadline: float | None = None,
        call_depth: int = 0,
    ) -> None:
        self.step_id = step_id
        self.call_frame = call_frame
        self.cancellation_manager = cancellation_manager
        self.stats_collector = stats_collector
        self.rendezvous = rendezvous
        self.collective_executor = collective_executor
        self.session_state = session_state
        self.session_handle = session_handle
        self.tensor_store = tensor_store
        self.step_container = step_container
        self.runner = runner
        self.sync_on_finish = sync_on_finish
        self.start_time = start_time
        self.deadline = deadline
        self.call_depth = call_depth

    def for_call(self, call_frame: CallFrame) -> ExecutorArgs:
        """Return the arguments of a function call made by a node of this run."""
        return ExecutorArgs(
            self.step_id,
            call_frame,
            cancellation_manager=self.cancellation_manager,
            stats_collector=self.stats_collector,
            rendezvous=self.rendezvous,
            collective_executor=self.collective_executor,
            session_state=self.session_state,
            session_handle=self.session_handle,
            tensor_store=self.tensor_store,
            step_container=self.step_container,
            runner=self.runner,
            start_time=self.start_time,
            deadline=self.deadline,
            call_depth=self.call_depth + 1,
        )


class Executor(ABC):
    """Runs one partition; made once, run any number of times, also at the same time.

    Contract of `run_async`: `done` is called exactly once, with None or the first error, after the
    last node that was started has finished. It may be called before `run_async` returns.
    """

    @abstractmethod
    def run_async(self, args: ExecutorArgs, done: DoneCallback) -> None:
        """Start a run."""

    def run(self, args: ExecutorArgs) -> None:
        """Run and wait.

        Raises:
            OpError: the first error of the run.
        """
        finished = threading.Event()
        outcome: list[OpError | None] = []

        def done(error: OpError | None) -> None:
            outcome.append(error)
            finished.set()

        self.run_async(args, done)
        finished.wait()
        if outcome[0] is not None:
            raise outcome[0]

    def close(self) -> None:  # noqa: B027 - an executor without kernels of its own has none to drop
        """Give back what the executor holds."""


class ExecutorFactory(ABC):
    """Makes executors of one type; registered under the name that `executor_type` asks for."""

    @abstractmethod
    def new_executor(self, params: LocalExecutorParams, graph: Graph) -> Executor:
        """Return an executor of `graph`.

        Raises:
            InvalidArgumentError: this type of executor cannot run the graph; says why.
        """
