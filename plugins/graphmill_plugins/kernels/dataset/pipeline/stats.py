"""Datasets that record statistics of their elements, and the aggregator that stores them.

Semantics: tensorflow/core/kernels/data/experimental/{stats_aggregator_ops,stats_dataset_ops,
set_stats_aggregator_dataset_op}.cc.
"""

from __future__ import annotations

import sys
import time
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import dtypes
from graphmill.spi.process import fork_safe_lock
from graphmill.spi.protos import HistogramProto, Summary
from graphmill_plugins.kernels.dataset.pipeline.dataset import ElementIterator, path_to_root
from graphmill_plugins.kernels.dataset.pipeline.hint import Hint

if TYPE_CHECKING:
    from graphmill.dtypes import DType
    from graphmill.spi import Value
    from graphmill_plugins.kernels.dataset.pipeline.dataset import (
        Dataset,
        Element,
        Elements,
        Scope,
    )

_STRING_HEADER_BYTES: Final = 24
"""The size of TensorFlow's `tstring`, which is counted for each string."""


class RunningHistogram:
    """A histogram to which values are added one at a time."""

    def __init__(self) -> None:
        from graphmill_plugins.kernels.summary._summary_values import bucket_limits

        self._limits = bucket_limits()
        self._buckets = np.zeros(len(self._limits))
        self._proto = HistogramProto(min=sys.float_info.max, max=-sys.float_info.max)

    def add(self, value: float) -> None:
        """Add a value."""
        histogram = self._proto
        histogram.min, histogram.max = min(histogram.min, value), max(histogram.max, value)
        histogram.num += 1
        histogram.sum += value
        histogram.sum_squares += value * value
        self._buckets[np.searchsorted(self._limits, value, side="right")] += 1

    def proto(self) -> HistogramProto:
        """Return the histogram as a message."""
        histogram = HistogramProto()
        histogram.CopyFrom(self._proto)
        # Of a run of empty buckets only the last one is written.
        written = (self._buckets > 0) | np.append(self._buckets[1:] > 0, True)
        histogram.bucket_limit.extend(self._limits[written].tolist())
        histogram.bucket.extend(self._buckets[written].tolist())
        return histogram


class StatsAggregator:
    """Stores statistics as histograms until a step requests a summary.

    Threads: `_lock` guards the histograms.
    """

    def __init__(self) -> None:
        self._lock = fork_safe_lock()
        self._histograms: dict[str, RunningHistogram] = {}

    def add(self, name: str, value: float) -> None:
        """Add a value to a histogram."""
        self._added(name, value)

    def _added(self, name: str, value: float) -> HistogramProto:
        with self._lock:
            histogram = self._histograms.get(name)
            if histogram is None:
                histogram = self._histograms[name] = RunningHistogram()
            histogram.add(value)
            return histogram.proto()

    def summary(self) -> Summary:
        """Return a summary with all histograms."""
        message = Summary()
        with self._lock:
            for name, histogram in self._histograms.items():
                message.value.add(tag=name, histo=histogram.proto())
        return message


class WritingStatsAggregator(StatsAggregator):
    """Writes each change of a histogram to a summary writer, once it has one.

    Attributes:
        writer: the writer; None before it is set.
    """

    def __init__(self) -> None:
        super().__init__()
        self.writer: Any = None
        self._steps = 0

    def add(self, name: str, value: float) -> None:
        """Add a value to a histogram, and write the histogram."""
        histogram = self._added(name, value)
        if self.writer is None:
            return
        summary = Summary()
        summary.value.add(tag=name, histo=histogram)
        with self._lock:
            step, self._steps = self._steps, self._steps + 1
        self.writer.file().add_summary(summary, step)

    def summary(self) -> Summary:
        """Return an empty summary: the histograms are in the writer's file."""
        return Summary()


class SetStatsAggregator(Hint):
    """The elements of the input, whose statistics go to an aggregator.

    Attributes:
        aggregator: the aggregator.
        tag: precedes the names of the statistics.
    """

    def __init__(self, source: Dataset, aggregator: StatsAggregator, tag: str) -> None:
        super().__init__(source)
        self.aggregator, self.tag = aggregator, tag

    def add(self, name: str, value: float) -> None:
        """Add a value to a statistic."""
        self.aggregator.add(f"{self.tag}::{name}" if self.tag else name, value)


class Stats(Hint):
    """The elements of the input; a statistic of each is added to the next aggregator, if any.

    Args:
        source: the dataset.
        name: that of the statistic.
    """

    is_indexed = False

    def __init__(self, source: Dataset, name: str) -> None:
        super().__init__(source)
        self.name = name

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        elements = super().iterate(scope)
        path = None if scope.root is None else path_to_root(scope.root, self)
        target = next((one for one in path or () if isinstance(one, SetStatsAggregator)), None)
        return elements if target is None else _Measuring(self, elements, target)

    @abstractmethod
    def measure(self, element: Element, seconds: float) -> float:
        """Return the statistic of an element, given its duration."""


class BytesProduced(Stats):
    """The elements of the input; their sizes in bytes are recorded."""

    def measure(self, element: Element, seconds: float) -> float:
        """Return the size of an element."""
        del seconds
        return float(sum(map(_bytes, element, self.dtypes)))


class Latency(Stats):
    """The elements of the input; their durations in microseconds are recorded."""

    def measure(self, element: Element, seconds: float) -> float:
        """Return the duration in microseconds."""
        del element
        return float(round(seconds * 1e6))


def _bytes(value: Value, dtype: DType) -> int:
    if dtype is dtypes.string:
        items = np.asarray(value, object).ravel().tolist()
        return _STRING_HEADER_BYTES * len(items) + sum(map(len, items))
    return int(getattr(value, "nbytes", 0))


class _Measuring(ElementIterator):
    def __init__(self, dataset: Stats, source: Elements, target: SetStatsAggregator) -> None:
        self._dataset, self._source, self._target = dataset, source, target

    def __next__(self) -> Element:
        start = time.perf_counter()
        element = next(self._source)
        seconds = time.perf_counter() - start
        self._target.add(self._dataset.name, self._dataset.measure(element, seconds))
        return element
