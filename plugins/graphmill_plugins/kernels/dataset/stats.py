"""Kernels of statistics of pipelines.

Semantics: tensorflow/core/kernels/data/experimental/{stats_aggregator_ops,stats_dataset_ops,
set_stats_aggregator_dataset_op}.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.spi import ResourceHandle
from graphmill_plugins.kernels._strings import decode, string_scalar
from graphmill_plugins.kernels.dataset.pipeline.dataset import (
    dataset_kernel,
    dataset_maker,
    dataset_of,
    scalar,
)
from graphmill_plugins.kernels.dataset.pipeline.stats import (
    BytesProduced,
    Latency,
    SetStatsAggregator,
    StatsAggregator,
    WritingStatsAggregator,
)
from graphmill_plugins.kernels.state.value import resource_key
from graphmill_plugins.kernels.summary._event_file import SummaryWriter

if TYPE_CHECKING:
    from graphmill.spi import OpKernelConstruction, OpKernelContext, Value
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset


class _HandleKernel:
    """Find or create a node's aggregator, and return its handle."""

    kind: type[StatsAggregator] = StatsAggregator

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._container, self._name = resource_key(construction)

    def __call__(self, ctx: OpKernelContext) -> ResourceHandle:
        """Return the handle."""
        kind = self.kind
        aggregator = ctx.resources.lookup_or_create(self._container, self._name, kind, kind)
        container = self._container or ctx.resources.default_container
        return ResourceHandle(ctx.device.name, container, self._name, "StatsAggregator", aggregator)


@dataset_kernel("StatsAggregatorHandle", "ExperimentalStatsAggregatorHandle", effects=("state",))
class StatsAggregatorHandleKernel(_HandleKernel):
    """Return the handle of an aggregator whose statistics a step fetches."""


@dataset_kernel("StatsAggregatorHandleV2", effects=("state",))
class StatsAggregatorHandleV2Kernel(_HandleKernel):
    """Return the handle of an aggregator that writes its statistics to a summary writer."""

    kind = WritingStatsAggregator


def _aggregator(handle: Any) -> StatsAggregator:
    aggregator: StatsAggregator = handle.expect(StatsAggregator)
    return aggregator


@dataset_kernel("StatsAggregatorSummary", "ExperimentalStatsAggregatorSummary", effects=("state",))
def stats_aggregator_summary(ctx: OpKernelContext, iterator: Any) -> Value:
    """Return the statistics of an aggregator as a serialized summary."""
    del ctx
    return string_scalar(_aggregator(iterator).summary().SerializeToString())


@dataset_kernel("StatsAggregatorSetSummaryWriter", effects=("state",), brokered=True)
def stats_aggregator_set_summary_writer(
    ctx: OpKernelContext, stats_aggregator: Any, summary: Any
) -> None:
    """Give an aggregator a summary writer; one whose statistics are fetched ignores it."""
    del ctx
    aggregator, writer = _aggregator(stats_aggregator), summary.expect(SummaryWriter)
    if isinstance(aggregator, WritingStatsAggregator):
        aggregator.writer = writer


@dataset_maker(
    "SetStatsAggregatorDataset", "ExperimentalSetStatsAggregatorDataset", effects=("state",)
)
def set_stats_aggregator_dataset(
    ctx: OpKernelContext, source: Value, stats_aggregator: Any, tag: Value, counter_prefix: Value
) -> Dataset:
    """Make a dataset whose inputs record their statistics in an aggregator."""
    del ctx
    scalar(counter_prefix, "counter_prefix")
    name = decode(scalar(tag, "tag"))
    return SetStatsAggregator(dataset_of(source), _aggregator(stats_aggregator), name)


@dataset_maker("BytesProducedStatsDataset", "ExperimentalBytesProducedStatsDataset")
def bytes_produced_stats_dataset(ctx: OpKernelContext, source: Value, tag: Value) -> Dataset:
    """Make a dataset that records the sizes of its elements."""
    del ctx
    return BytesProduced(dataset_of(source), decode(scalar(tag, "tag")))


@dataset_maker("LatencyStatsDataset", "ExperimentalLatencyStatsDataset", effects=("clock",))
def latency_stats_dataset(ctx: OpKernelContext, source: Value, tag: Value) -> Dataset:
    """Make a dataset that records the time that each element takes."""
    del ctx
    return Latency(dataset_of(source), decode(scalar(tag, "tag")))
