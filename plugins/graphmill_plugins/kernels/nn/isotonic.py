"""IsotonicRegression: the closest decreasing sequence to each row.

Semantics: tensorflow/core/kernels/isotonic_regression_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill.spi.kernels import cancellable

if TYPE_CHECKING:
    from graphmill.spi import Value

_BLOCK: Final = 1 << 14  # elements of a row between two checks of the deadline
_OUTPUTS = {
    **{dtype: dtype for dtype in dtypes.FLOATING},
    **dict.fromkeys((dtypes.int8, dtypes.int16), dtypes.float32),
    **dict.fromkeys((dtypes.int32, dtypes.int64), dtypes.float64),
}


@kernel("IsotonicRegression", host=True, expensive=True, types={"T": tuple(_OUTPUTS)})
def isotonic_regression(
    x: Value, T: np.dtype[Any], output_dtype: np.dtype[Any]
) -> tuple[Value, Value]:
    """Return the decreasing rows with the least squared distance, and the segments they consist of.

    Each row is constant on a segment; the segments of a row are numbered from 0.

    Raises:
        InvalidArgumentError: the output type is not that for the input's type.
    """
    expected = _OUTPUTS[dtypes.as_dtype(T)]
    if dtypes.as_dtype(output_dtype) is not expected:
        raise InvalidArgumentError(
            f"IsotonicRegression of {dtypes.as_dtype(T).name} has output_dtype {expected.name}, "
            f"got {dtypes.as_dtype(output_dtype).name}"
        )
    out = np.empty(x.shape, output_dtype)
    segments = np.empty(x.shape, np.int32)
    width = x.shape[-1] if x.ndim else 1
    if x.size:
        rows = (array.reshape(-1, width) for array in (x.astype(output_dtype), out, segments))
        for row, result, ids in cancellable(zip(*rows, strict=True)):
            means, lengths = _pool_adjacent_violators(row)
            result[:] = np.repeat(np.array(means, output_dtype), lengths)
            ids[:] = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    return out, segments


def _pool_adjacent_violators(row: Value) -> tuple[list[Any], list[int]]:
    """Return the means and the lengths of the segments of one row."""
    number = row.dtype.type
    sums: list[Any] = []
    means: list[Any] = []
    lengths: list[int] = []
    # Python's floats are those of float64, and several times as fast as NumPy's.
    values = row.tolist() if number is np.float64 else row
    for value in cancellable(values, _BLOCK):
        total, mean, length = value, value, 1
        while means and mean > means[-1]:
            total = sums.pop() + total
            means.pop()
            length += lengths.pop()
            mean = total / (length if number is np.float64 else number(length))
        sums.append(total)
        means.append(mean)
        lengths.append(length)
    return means, lengths
