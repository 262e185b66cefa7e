"""`StepStatsCollector`: records when each node of a step was scheduled, started and done (row E12).

Semantics: `tensorflow/core/common_runtime/step_stats_collector.cc`.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError
from graphmill.runtime.resources.variables import Variable
from graphmill.runtime.value_shape import num_bytes_of_value

if TYPE_CHECKING:
    from graphmill.graph.node import Node
    from graphmill.ops.attrs.attr_types import TensorAttr
    from graphmill.proto.step_stats_pb2 import StepStats

_NANOS_PER_MICRO = 1000


class OutputStats(NamedTuple):
    """One output of a node that ran."""

    dtype: int
    """Its `DataType` enum value; 0 if the output is dead or not a tensor."""
    shape: tuple[int, ...]
    num_bytes: int


class NodeStats(NamedTuple):
    """One run of one node; times are `time.time_ns()`."""

    node_name: str
    op: str
    thread_id: int
    scheduled: int
    started: int
    ended: int
    outputs: tuple[OutputStats, ...]
    label: str = ""
    """The label in timelines; empty for `node = Op()`."""


class StepStatsCollector:
    """Collects the node statistics of one step, by device.

    Threads: `record` appends to a list, which is atomic; `to_proto` is called after the step.
    """

    def __init__(self) -> None:
        self._by_device: dict[str, list[NodeStats]] = {}

    def record(self, device: str, stats: NodeStats) -> None:
        """Add one run of a node."""
        self._by_device.setdefault(device, []).append(stats)

    def nodes(self, device: str | None = None) -> list[NodeStats]:
        """Return the recorded nodes in order of completion, of one device or of all."""
        if device is not None:
            return list(self._by_device.get(device, ()))
        return [stats for recorded in self._by_device.values() for stats in recorded]

    def to_proto(self) -> StepStats:
        """Return a `StepStats` message."""
        from graphmill.proto import step_stats_pb2

        message = step_stats_pb2.StepStats()
        for device, recorded in sorted(self._by_device.items()):
            device_stats = message.dev_stats.add(device=device)
            threads: dict[int, int] = {}
            allocator = device.rpartition("/device:")[2].partition(":")[0].lower()
            for stats in recorded:
                _fill_node(device_stats.node_stats.add(), stats, threads, allocator)
        return message


def record_node(
    collector: StepStatsCollector,
    device: str,
    node: Node,
    started: int,
    result: Any,
    *,
    scheduled: int = 0,
) -> None:
    """Record a run of a node that ends now, in the thread that ran it.

    Args:
        collector: `ExecutorArgs.stats_collector`.
        device: name of the device.
        node: the node.
        started: the time when its kernel was called, from `now`.
        result: the result of its kernel.
        scheduled: the time when it became ready; 0 if that is when it was called.
    """
    times = (thread_id(), scheduled or started, started, now())
    outputs = describe_outputs(result, node.num_outputs)
    collector.record(device, NodeStats(node.name, node.op, *times, outputs, label_of(node)))


def label_of(node: Node) -> str:
    """Return a node's label in timelines: `y = MatMul(x, w:1)`; arrows are drawn from it."""
    return f"{node.name} = {node.op}({', '.join(edge.tensor_name for edge in node.in_edges)})"


def describe_outputs(result: Any, count: int) -> tuple[OutputStats, ...]:
    """Describe the `count` outputs of a kernel, which have not been checked yet."""
    outputs = (result,) if count == 1 else result if isinstance(result, (tuple, list)) else ()
    return tuple(map(_describe, outputs))


def output_of_attr(value: TensorAttr) -> OutputStats:
    """Describe a constant by the attr that holds it."""
    size = 1
    for length in value.shape:
        size *= length
    item_size = value.dtype.as_numpy_dtype.itemsize if value.dtype.is_numpy_compatible else 0
    return OutputStats(value.dtype.enum, value.shape, size * item_size)


def now() -> int:
    """Return the wall time in nanoseconds, the clock of node statistics."""
    return time.time_ns()


def thread_id() -> int:
    """Return the identity of the calling thread."""
    return threading.get_ident()


def write_output(output: OutputStats, message: Any) -> None:
    """Write element type and shape of an output into a message with fields `dtype` and `shape`."""
    message.dtype = output.dtype
    for size in output.shape:
        message.shape.dim.add(size=size)


def _describe(value: Any) -> OutputStats:
    if isinstance(value, Variable) and value.value is not None:
        value = value.value
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    return OutputStats(
        0 if dtype is None else _type_enum(dtype),
        shape if isinstance(shape, tuple) else (),  # a variant's `shape` may be anything
        num_bytes_of_value(value),
    )


def _type_enum(dtype: Any) -> int:
    try:
        return as_dtype(dtype).enum
    except InvalidArgumentError:  # an array of a device that has its own dtypes
        return 0


def _fill_node(node: Any, stats: NodeStats, threads: dict[int, int], allocator: str) -> None:
    """Fill a `NodeExecStats`; memory is that of the outputs, without a kernel's temporaries."""
    node.node_name = stats.node_name
    node.all_start_micros = stats.started // _NANOS_PER_MICRO
    node.all_start_nanos = stats.started
    node.op_end_rel_micros = (stats.ended - stats.started) // _NANOS_PER_MICRO
    node.op_end_rel_nanos = stats.ended - stats.started
    node.all_end_rel_micros = node.op_end_rel_micros
    node.all_end_rel_nanos = node.op_end_rel_nanos
    node.scheduled_micros = stats.scheduled // _NANOS_PER_MICRO
    node.scheduled_nanos = stats.scheduled
    node.thread_id = threads.setdefault(stats.thread_id, len(threads))
    node.timeline_label = stats.label or f"{stats.node_name} = {stats.op}()"
    for slot, output in enumerate(stats.outputs):
        description = node.output.add(slot=slot).tensor_description
        write_output(output, description)
        allocation = description.allocation_description
        allocation.requested_bytes = allocation.allocated_bytes = output.num_bytes
        allocation.allocator_name = allocator
    size = sum(output.num_bytes for output in stats.outputs)
    if size:
        node.memory.add(
            allocator_name=allocator, total_bytes=size, peak_bytes=size, live_bytes=size
        )
