"""CalibrationStatisticsSaver: collect the statistics of CustomAggregator ops in a file.

TensorFlow writes the file when the session drops the kernel. Here it is replaced after each step,
so that it is complete also if the process ends otherwise.

Semantics: tensorflow/compiler/mlir/quantization/tensorflow/calibrator/
calibration_statistics_saver_op.cc and calibration_statistics_collector_*.cc.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from graphmill import dtypes
from graphmill.errors import AbortedError, InvalidArgumentError
from graphmill.spi import kernel
from graphmill.spi.process import fork_safe_lock
from graphmill.spi.protos import proto
from graphmill_plugins.kernels._support import check_size, shape_text
from graphmill_plugins.kernels.quantized.calibration import bin_width

if TYPE_CHECKING:
    from graphmill.spi import OpKernelConstruction, OpKernelContext, Value

_F = np.float32
_AVERAGE: Final = 2
_HISTOGRAMS: Final = (3, 4, 5, 6)


class _Collector(Protocol):
    def collect(self, smallest: Any, largest: Any, histogram: Any) -> None:
        """Add the statistics of one step."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was collected, so that the file does not have the tensor."""

    def add_to(self, statistics: proto.CalibrationStatistics) -> None:
        """Write the collected statistics into a message."""


class _MinMax:
    """The smallest and the largest element of all steps."""

    def __init__(self) -> None:
        self._smallest, self._largest = np.finfo(_F).max, np.finfo(_F).min

    def collect(self, smallest: Any, largest: Any, histogram: Any) -> None:
        del histogram
        self._smallest = min(self._smallest, smallest)
        self._largest = max(self._largest, largest)

    @property
    def is_empty(self) -> bool:
        return bool(self._smallest == np.finfo(_F).max)

    def add_to(self, statistics: proto.CalibrationStatistics) -> None:
        found = statistics.min_max_statistics
        found.global_min, found.global_max = float(self._smallest), float(self._largest)


class _AverageMinMax:
    """The sums of the smallest and of the largest elements of all steps."""

    def __init__(self) -> None:
        self._smallest, self._largest, self._count = _F(0), _F(0), 0

    def collect(self, smallest: Any, largest: Any, histogram: Any) -> None:
        del histogram
        self._smallest, self._largest = self._smallest + smallest, self._largest + largest
        self._count += 1

    @property
    def is_empty(self) -> bool:
        return not self._count

    def add_to(self, statistics: proto.CalibrationStatistics) -> None:
        found = statistics.average_min_max_statistics
        found.min_sum, found.max_sum = float(self._smallest), float(self._largest)
        found.num_samples = self._count


class _Histogram:
    """A histogram with the bin width of the first step, which grows at both ends."""

    def __init__(self) -> None:
        self._width, self._lower = _F(0), _F(0)
        self._counts = np.zeros(0, _F)

    def collect(self, smallest: Any, largest: Any, histogram: Any) -> None:
        if not histogram.size:
            return
        width = bin_width(smallest, largest, histogram.size)
        if not (width > 0 and np.isfinite(width)):
            raise InvalidArgumentError(
                f"the histogram of a tensor needs a finite range, got {smallest} to {largest}"
            )
        lower = _F(np.floor(smallest / width) * width)
        upper = _F(np.ceil(largest / width) * width)
        if not self._counts.size:
            self._width, self._lower = width, lower
        first, last = self._grown(lower, upper)
        for index in range(first, last + 1):
            start = self._lower + _F(index) * self._width
            self._counts[index] += _count(histogram, width, lower, start, start + self._width)

    def _grown(self, lower: Any, upper: Any) -> tuple[int, int]:
        """Return the bins of two values, after adding those that are missing."""
        first = math.floor((lower - self._lower) / self._width)
        span = math.floor((upper - lower) / self._width) + 2
        check_size((abs(first) + span + self._counts.size,), "the histogram", itemsize=4)
        if first < 0:
            self._counts = np.concatenate([np.zeros(-first, _F), self._counts])
            self._lower = self._lower - self._width * _F(-first)
            first = 0
        last = math.floor((upper - self._lower) / self._width)
        missing = max(last + 1 - self._counts.size, 0)
        self._counts = np.concatenate([self._counts, np.zeros(missing, _F)])
        return first, last

    @property
    def is_empty(self) -> bool:
        return not self._counts.size

    def add_to(self, statistics: proto.CalibrationStatistics) -> None:
        found = statistics.histogram_statistics
        found.bin_width, found.lower_bound = float(self._width), float(self._lower)
        used = np.flatnonzero(self._counts)
        found.hist_freq.extend(self._counts[: used[-1] + 1 if used.size else 0].tolist())


def _count(histogram: Any, width: Any, lower: Any, start: Any, end: Any) -> Any:
    """Return the number of elements of a histogram between two values, in float32."""
    total = _F(0)
    position = max(start, lower)
    while position < end:
        index = math.floor((position - lower) / width)
        if index >= histogram.size:
            break
        total = total + _F(histogram[index]) * (min(end - position, width) / width)
        position = position + width
    return total


def _collector(method: int) -> _Collector:
    if method == _AVERAGE:
        return _AverageMinMax()
    return _Histogram() if method in _HISTOGRAMS else _MinMax()


@kernel(
    "CalibrationStatisticsSaver", stateful=True, host=True, effects=("fs.write",), brokered=True
)
class CalibrationStatisticsSaverKernel:
    """Add the statistics of a step to those of earlier steps, and write all to the file.

    Threads: `_lock` guards the collectors and the file.

    Raises:
        AbortedError: there are not three inputs of the right types for each id, or not one method.
    """

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._ids = construction.attr("ids")
        self._methods = construction.attr("calibration_methods")
        self._path = construction.attr("output_file_path")
        self._broker = construction.broker
        self._lock = fork_safe_lock()
        self._collectors: dict[str, _Collector] = {}
        _check_inputs(len(self._ids), len(self._methods), construction.attrs["Tin"])

    def __call__(self, ctx: OpKernelContext, args: list[Value]) -> None:
        """Collect the statistics, and replace the file.

        Raises:
            InvalidArgumentError: an end of a range is no scalar, or a range of a histogram is empty
                or not finite.
        """
        del ctx
        with self._lock:
            for number, (name, method) in enumerate(zip(self._ids, self._methods, strict=True)):
                smallest, largest, histogram = args[3 * number : 3 * number + 3]
                for end in (smallest, largest):
                    if end.ndim:
                        raise InvalidArgumentError(
                            f"the statistics of {name!r} need scalars as smallest and largest "
                            f"element, got shape {shape_text(end.shape)}"
                        )
                collector = self._collectors.setdefault(name, _collector(method))
                collector.collect(smallest[()], largest[()], histogram.reshape(-1))
            self._broker.write(self._path, self._message())

    def _message(self) -> bytes:
        found = proto.CalibrationStatisticsMap()
        for name, collector in self._collectors.items():
            if not collector.is_empty:
                collector.add_to(found.statistics[name])
        return found.SerializeToString(deterministic=True)


def _check_inputs(ids: int, methods: int, types: tuple[Any, ...]) -> None:
    if ids != methods:
        raise AbortedError("The `ids` and `calibration_methods` must have the same size.")
    if len(types) != 3 * ids:
        raise AbortedError("The number of inputs must be  three times the size of the `ids` list.")
    expected = (("min", dtypes.float32), ("max", dtypes.float32), ("histogram", dtypes.int64))
    for number, dtype in enumerate(types):
        name, expected_dtype = expected[number % 3]
        if dtype is not expected_dtype:
            raise AbortedError(f"The input `{name}` must have {expected_dtype.name} type.")
