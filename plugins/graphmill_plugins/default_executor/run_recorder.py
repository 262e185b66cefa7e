"""`RunRecorder`: records when the nodes of a traced run were ready, started and done.

A small node takes about as long as its record, so a call does only what cannot be done after the
step.
"""

from __future__ import annotations

from threading import get_ident
from time import time_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.spi.executors import activity, is_profiled, measure_outputs, record_node

if TYPE_CHECKING:
    from graphmill.spi import ExecutorArgs
    from graphmill.spi.executors import StepStatsCollector
    from graphmill_plugins.default_executor.graph_view import NodeItem


class RunRecorder:
    """Calls kernels and records their runs.

    The time at which a node became ready is stored by its position in the ready queue, for all
    entries that one outcome added. A list returns its newest entry, so positions do not change.
    With a queue of another order, a node counts as ready when it starts.

    Threads: `call` may run in any thread if it is given `scheduled`; all else happens in the thread
    that drives the step.

    Args:
        ready: the ready queue.
        args: the arguments of the run, which has a collector of statistics.
        device: the name of the device.
    """

    __slots__ = (
        *("_caller_path", "_collector", "_device", "_has_order", "_is_profiled", "_last_outcome"),
        *("_named", "_ready", "_record", "_step_id", "_times"),
    )

    def __init__(self, ready: Any, args: ExecutorArgs, device: str) -> None:
        collector: StepStatsCollector = args.stats_collector  # type: ignore[assignment]
        self._ready, self._collector, self._device = ready, collector, device
        self._has_order = type(ready) is list
        self._record = collector.recorder(device)
        self._step_id = args.step_id
        self._caller_path = args.iteration
        self._is_profiled = is_profiled()
        self._named: tuple[Any, str] = (None, "")
        self._times: list[int] = []  # when the entries of the queue became ready
        self._last_outcome = time_ns()

    def note_outcome(self) -> None:
        """Note that the outcome of a kernel in flight has arrived, and makes nodes ready now."""
        self._last_outcome = time_ns()

    def take_ready_time(self) -> int:
        """Return when the entry just taken from the queue became ready; 0 stands for now."""
        if not self._has_order:
            return 0
        position, times = len(self._ready), self._times
        if position < len(times):
            ready = times[position]
            del times[position:]
            return ready
        ready = self._last_outcome
        if position > len(times):
            times += [ready] * (position - len(times))
        return ready

    def call(self, item: NodeItem, iteration: Any, inputs: list[Any], scheduled: int = -1) -> Any:
        """Call the kernel of a node, record the run, and return the outputs.

        Args:
            item: the node.
            iteration: its iteration.
            inputs: the inputs of the kernel.
            scheduled: the result of `take_ready_time`; -1 for the entry that was just taken.
        """
        if scheduled < 0:
            scheduled = self._last_outcome
            if not self._has_order or len(self._ready) != len(self._times):
                scheduled = self.take_ready_time()
        started = time_ns()
        if self._is_profiled:
            with activity(item.node, self._step_id, self._device):
                result = item.compute(*inputs)  # type: ignore[misc]
        else:
            result = item.compute(*inputs)  # type: ignore[misc]
        self._last_outcome = ended = time_ns()
        outputs = item.last_outputs
        dtype, shape, _ = outputs[0]
        if type(result) is not np.ndarray or result.dtype is not dtype or result.shape != shape:
            outputs = _measured(item, result)
        named = self._named  # one object, as other threads replace it
        if iteration is not named[0]:
            named = self._named = iteration, self._path(iteration)
        scheduled = scheduled or started
        self._record((item.node, get_ident(), scheduled, started, ended, outputs, named[1]))
        return result

    def begin(self, item: NodeItem, iteration: Any) -> AsyncCall:
        """Return a call of an asynchronous kernel that begins now."""
        ready = self.take_ready_time()
        return AsyncCall(self._collector, self._device, item, ready, self._path(iteration))

    def _path(self, iteration: Any) -> str:
        """Return the iterations around a node, those around the call of its function first."""
        caller_path, name = self._caller_path, iteration.name
        return f"{caller_path}/{name}" if caller_path and name else caller_path or name


def _measured(item: NodeItem, result: Any) -> tuple[Any, ...]:
    """Return type, shape and size of a node's outputs, and keep those of its only one."""
    outputs = measure_outputs(result, item.num_outputs)
    if item.num_outputs == 1:
        item.last_outputs = outputs
    return outputs


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
