"""Fill in the `RunMetadata` of a step (clause S6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill import proto
from graphmill.explain.step_trace import StepTrace
from graphmill.session.options import copy_message
from graphmill.session.reports.cost_model import measured_costs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.lowering.partitioning.build_executors import PerPartition
    from graphmill.ops.definition.op_registry import OpRegistry
    from graphmill.proto.config_pb2 import ConfigProto, RunMetadata, RunOptions
    from graphmill.runtime.steps.step_stats import StepStatsCollector
    from graphmill.session.executors_cache import ExecutorsAndKeys


class Measured:
    """The data that a step has recorded.

    Args:
        collector: the statistics of its nodes.
        executors: the executors of its signature.
        items: the partitions that ran.
        started: when it began, from `now`.
        ended: when it ended; None if it failed.
        ops: the ops of nodes in functions.
    """

    __slots__ = ("_collector", "_complete", "_executors", "_items")

    def __init__(
        self,
        collector: StepStatsCollector,
        executors: ExecutorsAndKeys,
        items: Sequence[PerPartition],
        started: int,
        ended: int | None,
        ops: OpRegistry,
    ) -> None:
        from graphmill.explain.trace_completion import completion_of  # few steps are traced

        self._collector, self._executors, self._items = collector, executors, items
        self._complete: Callable[[], None] | None = completion_of(
            collector, items, executors.items, started, ended, ops
        )

    def add_statistics(self, message: RunMetadata) -> None:
        """Add the statistics of the nodes."""
        message.step_stats.ParseFromString(self._completed().serialize())

    def add_costs(self, message: RunMetadata) -> None:
        """Add the cost graph of the signature, of which this step was measured."""
        costs = measured_costs(self._executors, self._items, self._completed())
        message.cost_graph.CopyFrom(costs)

    def _completed(self) -> StepStatsCollector:
        if self._complete is not None:
            self._complete()
            self._complete = None
        return self._collector


def fill_metadata(
    target: Any,
    items: Sequence[PerPartition],
    options: RunOptions,
    config: ConfigProto,
    measured: Measured | None,
    *,
    wants_costs: bool,
) -> RunMetadata:
    """Fill in the caller's `run_metadata`; return it as graphmill's message.

    Args:
        target: a `RunMetadata`, ours or TensorFlow's, or a `StepTrace`.
        items: the partitions that ran.
        options: the options of the step.
        config: the session's configuration.
        measured: what the step recorded; None if it was not traced.
        wants_costs: whether to add the cost graph of the signature.
    """
    metadata = target if isinstance(target, proto.RunMetadata) else proto.RunMetadata()
    metadata.Clear()
    if options.output_partition_graphs:
        from graphmill.explain.trace_completion import partition_graph

        metadata.partition_graphs.extend(partition_graph(item.graph) for item in items)
    if config.experimental.HasField("session_metadata"):
        metadata.session_metadata.CopyFrom(config.experimental.session_metadata)
    if measured is not None and wants_costs:
        measured.add_costs(metadata)
    if isinstance(target, StepTrace):
        target.take(metadata, None if measured is None else measured.add_statistics)
        return metadata
    if measured is not None:
        measured.add_statistics(metadata)
    if metadata is not target:
        copy_message(metadata, target)
    return metadata
