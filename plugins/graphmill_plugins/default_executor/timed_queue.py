"""`TimedQueue`: the ready queue of a traced run, which records the runs of its nodes.

It costs two to three microseconds a node, about as much as an executor itself, so it does only
what cannot be done after the step.
"""

from __future__ import annotations

from threading import get_ident
from time import time_ns
from typing import TYPE_CHECKING, Any

from graphmill.spi.executors import (
    TimedRun,
    activity,
    is_profiled,
    measure_outputs,
    record_node,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.spi import ExecutorArgs
    from graphmill.spi.executors import StepStatsCollector
    from graphmill_plugins.default_executor.graph_view import NodeItem


class TimedQueue:
    """A wrapper of another queue that preserves its order.

    Args:
        queue: the queue; entries are stored in it together with the time.
        args: the arguments of the run, which has a collector of statistics.
        device: the name of the device.

    Attributes:
        scheduled: when the entry that was taken last became ready, by `now`.
    """

    __slots__ = (
        *("_append", "_collector", "_device", "_is_profiled", "_iteration", "_name", "_pop"),
        *("_queue", "_runs", "_step_id", "scheduled"),
    )

    def __init__(self, queue: Any, args: ExecutorArgs, device: str) -> None:
        collector: StepStatsCollector = args.stats_collector  # type: ignore[assignment]
        self._queue = queue
        self._append, self._pop = queue.append, queue.pop
        self._collector, self._device, self._step_id = collector, device, args.step_id
        self._runs = collector.runs(device)
        self._is_profiled = is_profiled()
        self._iteration: Any = None
        self._name = ""
        self.scheduled = 0

    def append(self, entry: Any) -> None:
        """Add an entry, which is ready now."""
        self._append((entry, time_ns()))

    def extend(self, entries: Iterable[Any]) -> None:
        """Add several entries."""
        ready = time_ns()
        for entry in entries:
            self._append((entry, ready))

    def pop(self) -> Any:
        """Remove and return the next entry."""
        entry, self.scheduled = self._pop()
        return entry

    def clear(self) -> None:
        """Drop all entries."""
        self._queue.clear()

    def __len__(self) -> int:
        return len(self._queue)

    def call(self, item: NodeItem, iteration: Any, inputs: list[Any], scheduled: int = 0) -> Any:
        """Call the kernel of a node, record the run, and return the outputs.

        Args:
            item: the node.
            iteration: its iteration.
            inputs: the inputs of the kernel.
            scheduled: when it became ready; 0 for the time of the entry that was taken last.
        """
        started = time_ns()
        if self._is_profiled:
            with activity(item.node, self._step_id, self._device):
                result = item.compute(*inputs)  # type: ignore[misc]
        else:
            result = item.compute(*inputs)  # type: ignore[misc]
        ended = time_ns()
        name = self._name if iteration is self._iteration else self._name_of(iteration)
        outputs = measure_outputs(result, item.num_outputs)
        times = scheduled or self.scheduled, started, ended
        run = tuple.__new__(TimedRun, (item.node, get_ident(), *times, outputs, name))
        self._runs.append(run)
        return result

    def begin(self, item: NodeItem, iteration: Any) -> AsyncCall:
        """Return a call of an asynchronous kernel that begins now."""
        return AsyncCall(
            self._collector, self._device, item, self.scheduled, self._name_of(iteration)
        )

    def _name_of(self, iteration: Any) -> str:
        """Return the iterations around a node, and keep them for the next one."""
        name: str = iteration.name
        self._name, self._iteration = name, iteration
        return name


class AsyncCall:
    """A call of an asynchronous kernel, to be recorded when it is done.

    Attributes:
        started: when it began, by `now`.
    """

    __slots__ = ("_collector", "_device", "_item", "_iteration", "_scheduled", "started")

    def __init__(
        self,
        collector: StepStatsCollector,
        device: str,
        item: NodeItem,
        scheduled: int,
        iteration: str,
    ) -> None:
        self._collector, self._device, self._item = collector, device, item
        self._scheduled, self._iteration = scheduled, iteration
        self.started = time_ns()

    def end(self, outputs: Any, *, was_in_flight: bool) -> None:
        """Record the call, which ends now.

        Args:
            outputs: the outputs of the kernel.
            was_in_flight: whether the driving thread did other work before the kernel was done.
        """
        record_node(
            self._collector,
            self._device,
            self._item.node,
            self.started,
            outputs,
            scheduled=self._scheduled,
            iteration=self._iteration,
            was_in_flight=was_in_flight,
        )
