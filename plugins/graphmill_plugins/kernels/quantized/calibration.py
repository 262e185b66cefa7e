"""CustomAggregator: the statistics from which a quantizer chooses ranges.

Semantics: tensorflow/compiler/mlir/quantization/tensorflow/calibrator/custom_aggregator_op.cc and
stablehlo/cc/calibration/calibration_parameters.h.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import AbortedError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import check_size

if TYPE_CHECKING:
    from graphmill.spi import Value


@kernel("CustomAggregator", host=True)
def custom_aggregator(
    input: Value,  # noqa: A002
    calibration_method: int,
    num_bins: int,
) -> tuple[Value, Value, Value, Value]:
    """Return the input, its smallest and its largest element, and a histogram.

    Raises:
        AbortedError: there is no calibration method.
    """
    if not calibration_method:
        raise AbortedError("CALIBRATION_METHOD_UNSPECIFIED")
    check_size((num_bins,), "the histogram", itemsize=8)
    smallest = np.min(input, initial=np.float32(np.inf))
    largest = np.max(input, initial=np.float32(-np.inf))
    return input, smallest, largest, _histogram(input, smallest, largest, num_bins)


def _histogram(x: Value, smallest: Value, largest: Value, bins: int) -> Value:
    """Count elements in bins whose width is a power of two; the last bin has the rest."""
    if not x.size or not bins:
        return np.zeros(bins, np.int64)
    if smallest == largest:
        index = np.zeros(x.size, np.int64)
    else:
        width = bin_width(smallest, largest, bins)
        lower = np.floor(smallest / width) * width
        index = np.floor((x.ravel() - lower) / width).astype(np.int64)
    return np.bincount(np.clip(index, 0, bins - 1), minlength=bins).astype(np.int64)


def bin_width(smallest: Any, largest: Any, bins: int) -> Any:
    """Return the power of two, as float32, that is the width of bins between two floats."""
    span = (largest - smallest) / np.float32(bins)
    if not span > 0:
        return np.float32(0)
    return np.float32(2.0 ** math.ceil(math.log2(span)) if np.isfinite(span) else np.inf)
