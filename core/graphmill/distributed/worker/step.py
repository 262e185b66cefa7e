"""One step of a registered graph, as a driver thread runs it (clause W3).

Semantics: StartParallelExecutors of `tensorflow/core/distributed_runtime/graph_mgr.cc`.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.distributed.worker.group_collectives import StepGroups
from graphmill.distributed.worker.step_call import StepResult
from graphmill.distributed.worker.task_collectives import TaskCollectives
from graphmill.errors import InternalError, InvalidArgumentError, OpError
from graphmill.explain.trace_completion import complete_trace, partition_graph
from graphmill.runtime.executor import ExecutorArgs, ExecutorBarrier
from graphmill.runtime.rendezvous import HOST, TransferArgs
from graphmill.runtime.steps.call_frame import CallFrame
from graphmill.runtime.steps.cancel_grace import CancellationGracePeriod, executor_failure
from graphmill.runtime.steps.deadlock_detector import DeadlockDetector
from graphmill.runtime.steps.step_container import StepContainer
from graphmill.runtime.steps.step_runner import StepRunner, running
from graphmill.runtime.steps.step_stats import StepStatsCollector, now
from graphmill.runtime.threads.abandonable_thread import run_in_abandonable_thread
from graphmill.session.reports.cost_model import measured_costs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.distributed.worker.group_collectives import GroupCollectives
    from graphmill.distributed.worker.registered_graph import RegisteredGraph
    from graphmill.distributed.worker.remote_rendezvous import RemoteRendezvous
    from graphmill.distributed.worker.step_call import StepCall
    from graphmill.distributed.worker.worker_session import WorkerSession
    from graphmill.lowering.partitioning.build_executors import PerPartition
    from graphmill.runtime.steps.cancellation import CancellationManager
    from graphmill.runtime.threads.thread_pool import ThreadPool
    from graphmill.typing import Value


class WorkerStep:
    """One step on this worker.

    Args:
        session: the worker session.
        graph: the graph; the caller has acquired it.
        call: the master's call; for a partial run the first one.
        rendezvous: that of the step.
        cancellation: that of the step.
        pool: the threads for expensive kernels.
        groups: for collectives with other sessions.

    Attributes:
        collector: collects statistics; None if they were not requested.
    """

    def __init__(
        self,
        session: WorkerSession,
        graph: RegisteredGraph,
        call: StepCall,
        rendezvous: RemoteRendezvous,
        cancellation: CancellationManager,
        pool: ThreadPool | None,
        groups: GroupCollectives,
    ) -> None:
        self._session = session
        self._graph = graph
        self._call = call
        self._rendezvous = rendezvous
        is_traced = call.record_timeline or call.record_costs
        self.collector = StepStatsCollector() if is_traced else None
        self._container = StepContainer(call.step_id)
        self._items: tuple[PerPartition, ...] = ()
        self._collectives = TaskCollectives(
            rendezvous,
            session.device_names,
            len(graph.executors.items),
            StepGroups(groups, session.peers, graph.collective_groups),
        )
        self._args = ExecutorArgs(
            call.step_id,
            CallFrame((), 0),
            runner=StepRunner(pool),
            cancellation_manager=cancellation,
            stats_collector=self.collector,
            rendezvous=rendezvous,
            session_state=session.state,
            session_handle=session.handle,
            step_container=self._container,
            sync_on_finish=graph.syncs_devices,
            start_time=time.monotonic(),
            collectives=self._collectives,
        )

    def run(self) -> None:
        """Run the graph to its end, in the calling thread.

        Raises:
            OpError: the first error; the rendezvous has been aborted with it.
        """
        items, is_timed = self._graph.items_of_next_step(self._call.step_id)
        self._items = items
        started, began = now(), time.perf_counter()
        try:
            with np.errstate(all="ignore"), running(self._args):
                if all(item.executor.honours_deadlines for item in items):
                    self._drive(items)
                else:
                    executors = [item.executor for item in items]
                    run_in_abandonable_thread(lambda: self._drive(items), self._args, executors)
        except OpError as error:
            self._rendezvous.start_abort(error)
            self._collectives.step_failed(error)
            raise
        except Exception as error:
            failure = executor_failure(error, [item.executor for item in items])
            self._rendezvous.start_abort(failure)
            raise failure from error
        else:
            if is_timed:
                self._graph.count_seconds(time.perf_counter() - began)
            if self.collector is not None:
                interpreted = self._graph.executors.items
                ops = self._graph.host.ops
                complete_trace(self.collector, items, interpreted, started, now(), ops)
        finally:
            self._args.close()
            if self._container.is_used:
                self._session.devices.clear_containers([self._container.name])

    def result(self, outputs: dict[str, Value]) -> StepResult:
        """Return the master's result: fetched values, and requested measurements."""
        step_result = StepResult(outputs)
        if self.collector is not None:
            step_result.step_stats = self.collector.to_proto()
            if self._call.record_costs:
                executors = self._graph.executors
                step_result.cost_graph = measured_costs(executors, self._items, self.collector)
        if self._call.record_partition_graphs:
            step_result.partition_graphs = [partition_graph(item.graph) for item in self._items]
        return step_result

    def _drive(self, items: Sequence[PerPartition]) -> None:
        args = self._args
        barrier = ExecutorBarrier(len(items), args)
        for item in items:
            item.executor.run_async(args, barrier.partition_done)
        if not barrier.is_done:
            with DeadlockDetector(args), CancellationGracePeriod(args, [i.executor for i in items]):
                args.runner.run_until(lambda: barrier.is_done)
        if barrier.error is not None:
            raise barrier.error


def send_inputs(rendezvous: RemoteRendezvous, call: StepCall) -> None:
    """Send the values that the master feeds.

    Raises:
        OpError: the step has failed, or a key has been fed before.
    """
    for key, value in call.inputs.items():
        rendezvous.send(key, HOST, value)


def receive_outputs(
    rendezvous: RemoteRendezvous,
    keys: Sequence[str],
    cancellation: CancellationManager,
    done: Callable[[dict[str, Value], OpError | None], None],
) -> None:
    """Receive the master's fetches; call `done(values, error)` when all have arrived.

    Args:
        rendezvous: that of the step.
        keys: the keys of the fetches.
        cancellation: that of the call.
        done: receives values by key, or the first error; called in any thread.
    """
    values: dict[str, Value] = {}
    left = _Countdown(len(keys), lambda error: done(values, error))
    end = TransferArgs(None, True, cancellation)
    for key in keys:
        rendezvous.recv_local_async(key, end, _receiver(key, values, left))
    if not keys:
        done(values, None)


def _receiver(key: str, values: dict[str, Value], left: _Countdown) -> Callable[..., None]:
    def received(value: Value, is_dead: bool, error: Any) -> None:
        if error is None and is_dead:
            error = InvalidArgumentError(
                f"the fetched tensor {key} is dead: it is in a branch that was not taken"
            )
        elif error is None:
            values[key] = value
        elif not isinstance(error, OpError):
            error = InternalError(
                f"the tensor that is fetched as {key} was not copied to the host: "
                f"{type(error).__name__}: {error}"
            )
        left.down(error)

    return received


class _Countdown:
    """Calls a function with the first error, or None, when it has counted down to zero.

    Threads: `_lock` guards the count.
    """

    def __init__(self, count: int, then: Callable[[OpError | None], None]) -> None:
        self._lock = threading.Lock()
        self._left = count
        self._then = then
        self._error: OpError | None = None

    def down(self, error: OpError | None) -> None:
        with self._lock:
            self._left -= 1
            self._error = self._error or error
            is_last = not self._left
        if is_last:
            self._then(self._error)
