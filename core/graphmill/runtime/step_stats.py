"""`StepStatsCollector`: when each node of a step was scheduled, started and done (row E12).

Semantics: `tensorflow/core/common_runtime/step_stats_collector.cc`.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_NANOS_PER_MICRO = 1000


class NodeStats(NamedTuple):
    """One run of one node; times are `time.time_ns()`."""

    node_name: str
    op: str
    thread_id: int
    scheduled: int
    started: int
    ended: int
    outputs: tuple[tuple[str, tuple[int, ...], int], ...]
    """(dtype name, shape, bytes) of each output."""


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
        """Return what was recorded, in order of completion; of one device or of all."""
        if device is not None:
            return list(self._by_device.get(device, ()))
        return [stats for recorded in self._by_device.values() for stats in recorded]

    def to_proto(self) -> Any:
        """Return a `StepStats` message."""
        from graphmill.proto import step_stats_pb2

        message = step_stats_pb2.StepStats()
        for device, recorded in sorted(self._by_device.items()):
            device_stats = message.dev_stats.add(device=device)
            threads: dict[int, int] = {}
            for stats in recorded:
                _fill_node(device_stats.node_stats.add(), stats, threads)
        return message


def describe_outputs(outputs: Sequence[Any]) -> tuple[tuple[str, tuple[int, ...], int], ...]:
    """Return (dtype name, shape, bytes) of each output that is an array."""
    return tuple(
        (str(value.dtype), tuple(value.shape), int(getattr(value, "nbytes", 0)))
        for value in outputs
        if hasattr(value, "dtype") and hasattr(value, "shape") and value.shape is not None
    )


def now() -> int:
    """Return the wall time in nanoseconds, as node statistics use it."""
    return time.time_ns()


def thread_id() -> int:
    """Return the identity of the calling thread."""
    return threading.get_ident()


def _fill_node(node: Any, stats: NodeStats, threads: dict[int, int]) -> None:
    from graphmill.dtypes import as_dtype

    node.node_name = stats.node_name
    node.all_start_micros = stats.started // _NANOS_PER_MICRO
    node.all_start_nanos = stats.started
    node.op_start_rel_micros = 0
    node.op_end_rel_micros = (stats.ended - stats.started) // _NANOS_PER_MICRO
    node.op_end_rel_nanos = stats.ended - stats.started
    node.all_end_rel_micros = node.op_end_rel_micros
    node.all_end_rel_nanos = node.op_end_rel_nanos
    node.scheduled_micros = stats.scheduled // _NANOS_PER_MICRO
    node.scheduled_nanos = stats.scheduled
    node.thread_id = threads.setdefault(stats.thread_id, len(threads))
    node.timeline_label = f"{stats.node_name} = {stats.op}()"
    for slot, (dtype, shape, size) in enumerate(stats.outputs):
        output = node.output.add(slot=slot)
        description = output.tensor_description
        description.dtype = as_dtype(dtype).enum
        for dim in shape:
            description.shape.dim.add(size=dim)
        description.allocation_description.requested_bytes = size
