"""Fractional pooling over windows of random sizes, and its gradients.

Semantics: tensorflow/core/kernels/fractional_pool_common.cc, fractional_max_pool_op.cc,
fractional_avg_pool_op.cc (after Graham, "Fractional Max-Pooling", 2014). With seeds set
(`deterministic`), the windows are TensorFlow's.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import check_size, shape_text
from graphmill_plugins.kernels.random import _philox
from graphmill_plugins.kernels.random.stateful import GuardedPhilox

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphmill.spi import OpKernelConstruction, OpKernelContext, Value

_TYPES = {"T": (dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64)}


def _pseudo_random(size: int, windows: int, generator: _philox.Philox) -> list[int]:
    """Return sizes of windows that differ by a random phase."""
    alpha, whole = size / windows, size // windows
    limit = min((whole + 2) / alpha - 1, (size + 1 - whole) / alpha - (windows - 1))
    phase = float(_philox.uniform(np, generator, 1, np.dtype(np.float64))[0]) * limit
    ends = [1, *(math.ceil(alpha * (index + phase)) for index in range(1, windows)), size + 1]
    return [end - start for start, end in itertools.pairwise(ends)]


def _random(size: int, windows: int, generator: _philox.Philox) -> list[int]:
    """Return sizes of windows of two kinds in random order."""
    whole, longer = divmod(size, windows)
    sizes = [whole + 1] * longer + [whole] * (windows - longer)
    samples = _philox.samples(np, generator, windows).tolist()
    for index in range(windows - 1):
        other = index + samples[index] % (windows - index)
        sizes[index], sizes[other] = sizes[other], sizes[index]
    return sizes


def _sequence(
    size: int, windows: int, pseudo_random: bool, generator: _philox.Philox
) -> tuple[Any, _philox.Philox]:
    """Return the boundaries of the windows along an axis, and the advanced generator."""
    if pseudo_random:
        sizes, used = _pseudo_random(size, windows, generator), 1
    else:
        sizes, used = _random(size, windows, generator), (windows + 3) // 4
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), generator.skip(used)


class _FractionalKernel:
    """Divide an image into windows of random sizes, the same in each call if `deterministic`."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        ratio = construction.attr("pooling_ratio")
        if len(ratio) != 4:
            raise InvalidArgumentError(
                f"pooling_ratio field must specify 4 dimensions, got {list(ratio)}"
            )
        if ratio[0] != 1 or ratio[3] != 1:
            raise UnimplementedError(
                "Fractional pooling is not supported on the batch nor the channel dimension; "
                f"{construction.op} has pooling_ratio={list(ratio)}"
            )
        if min(ratio) < 1:
            raise InvalidArgumentError(f"pooling_ratio cannot be smaller than 1, got {list(ratio)}")
        seeds = construction.attr("seed"), construction.attr("seed2")
        if any(seeds) and not construction.attr("deterministic"):
            raise InvalidArgumentError(
                "Both seed and seed2 should be 0 if deterministic is false, got "
                f"{seeds[0]} and {seeds[1]}"
            )
        self._ratio = ratio
        self._overlapping = construction.attr("overlapping")
        self._pseudo_random = construction.attr("pseudo_random")
        self._construction = construction
        first = GuardedPhilox(construction).reserve(0)
        self._generator = first if construction.attr("deterministic") else None

    def _windows(self, value: Value) -> tuple[Any, Any]:
        if value.ndim != 4:
            raise InvalidArgumentError(
                f"value must be 4-dimensional, got shape {shape_text(value.shape)}"
            )
        counts = [
            int(np.float32(size) / np.float32(ratio))
            for size, ratio in zip(value.shape, self._ratio, strict=True)
        ]
        if min(counts) < 1:
            raise InvalidArgumentError(
                "Pooling ratio is higher than input dimension size: an input of shape "
                f"{shape_text(value.shape)} with pooling_ratio={list(self._ratio)}"
            )
        generator = self._generator or GuardedPhilox(self._construction).reserve(0)
        rows, generator = _sequence(value.shape[1], counts[1], self._pseudo_random, generator)
        return rows, _sequence(value.shape[2], counts[2], self._pseudo_random, generator)[0]


def _cut(sequence: Any, size: int, overlapping: bool) -> Iterator[slice]:
    """Yield the windows along an axis; overlapping ones take the first element of the next."""
    for start, stop in itertools.pairwise(sequence.tolist()):
        yield slice(start, min(stop + overlapping, size))


def _reduced(value: Value, rows: Any, columns: Any, overlapping: bool, reduce: Any) -> Value:
    """Reduce windows, first along the rows, then along the columns."""
    cuts = _cut(rows, value.shape[1], overlapping)
    by_row = np.stack([reduce(value[:, cut], axis=1) for cut in cuts], axis=1)
    cuts = _cut(columns, value.shape[2], overlapping)
    return np.stack([reduce(by_row[:, :, cut], axis=2) for cut in cuts], axis=2)


@kernel("FractionalMaxPool", stateful=True, host=True, types=_TYPES, effects=("rng",))
class FractionalMaxPoolKernel(_FractionalKernel):
    """Take the maximum of each window."""

    def __call__(self, ctx: OpKernelContext, value: Value) -> tuple[Value, Value, Value]:
        """Return the maxima and the windows' starts along rows and columns."""
        del ctx
        rows, columns = self._windows(value)
        out = _reduced(value, rows, columns, self._overlapping, _maximum)
        return out, rows, columns


@kernel("FractionalAvgPool", stateful=True, host=True, types=_TYPES, effects=("rng",))
class FractionalAvgPoolKernel(_FractionalKernel):
    """Take the mean of each window, rounded towards zero for integers."""

    def __call__(self, ctx: OpKernelContext, value: Value) -> tuple[Value, Value, Value]:
        """Return the means and the windows' starts along rows and columns."""
        del ctx
        rows, columns = self._windows(value)
        total = _reduced(value, rows, columns, self._overlapping, _sum)
        count = _counts(value.shape, rows, columns, self._overlapping)[None, :, :, None]
        if value.dtype.kind == "i":
            return np.trunc(total / count).astype(value.dtype), rows, columns
        return total / count.astype(value.dtype), rows, columns


def _maximum(values: Value, axis: int) -> Value:
    """Return maxima as TensorFlow does: NaN and minus infinity are never the maximum."""
    limits = np.iinfo if values.dtype.kind == "i" else np.finfo
    lowest = limits(values.dtype).min
    maxima: Value = np.fmax.reduce(values, axis=axis, initial=lowest)
    return maxima


def _sum(values: Value, axis: int) -> Value:
    return values.sum(axis=axis, dtype=values.dtype)


def _counts(shape: Sequence[int], rows: Any, columns: Any, overlapping: bool) -> Any:
    """Return the number of elements of each window."""
    heights, widths = (
        np.array([cut.stop - cut.start for cut in _cut(sequence, size, overlapping)])
        for sequence, size in ((rows, shape[1]), (columns, shape[2]))
    )
    return heights[:, None] * widths


def _check_sequences(shape: Sequence[int], gradient: Value, rows: Value, columns: Value) -> None:
    """Check the gradient of an output against the input and the windows.

    Raises:
        InvalidArgumentError: a shape does not fit, or the windows do not fit the input.
    """
    if len(shape) != 4 or gradient.ndim != 4:
        raise InvalidArgumentError(
            f"the input and its gradient must be 4-dimensional, got {shape_text(shape)} and "
            f"{shape_text(gradient.shape)}"
        )
    expected = (shape[0], rows.size - 1, columns.size - 1, shape[3])
    if gradient.shape != expected:
        raise InvalidArgumentError(
            f"out_backprop must have shape {shape_text(expected)}, got {shape_text(gradient.shape)}"
        )
    for name, sequence, size in (("row", rows, shape[1]), ("col", columns, shape[2])):
        if sequence.ndim != 1 or not sequence.size:
            raise InvalidArgumentError(f"{name}_pooling_sequence must be a vector of windows")
        starts = sequence[:-1]  # the last window may end beyond the input
        if (
            starts.min(initial=0) < 0
            or starts.max(initial=0) > size
            or (np.diff(sequence) < 0).any()
        ):
            raise InvalidArgumentError(
                f"{name}_pooling_sequence must increase from 0 to {size}, got {sequence.tolist()}"
            )


@kernel("FractionalAvgPoolGrad", host=True, types=_TYPES)
def fractional_avg_pool_grad(
    input_shape: Value,
    gradient: Value,
    rows: Value,
    columns: Value,
    overlapping: bool,
) -> Value:
    """Divide each gradient equally among the elements of its window."""
    if input_shape.shape != (4,) or input_shape.min() < 0:
        raise InvalidArgumentError(
            f"original input tensor shape must have 4 sizes, got {input_shape.tolist()}"
        )
    shape = tuple(input_shape.tolist())
    _check_sequences(shape, gradient, rows, columns)
    if not overlapping and 0 in (*rows[1:], *columns[1:]):
        raise InvalidArgumentError(
            "a window of the pooling sequences ends before the input: "
            f"{rows.tolist()} and {columns.tolist()}"
        )
    check_size(shape)
    counts = np.maximum(_counts(shape, rows, columns, overlapping), 1)
    shares = gradient / counts[None, :, :, None]
    total = np.zeros(shape)
    windows = _Windows(shape, rows, columns, overlapping)
    indices = windows.indices(windows.positions())
    np.add.at(total.reshape(-1), indices, windows.repeated(shares).reshape(-1))
    return total.astype(gradient.dtype)


@kernel("FractionalMaxPoolGrad", host=True, types=_TYPES)
def fractional_max_pool_grad(
    value: Value,
    out: Value,
    gradient: Value,
    rows: Value,
    columns: Value,
    overlapping: bool,
) -> Value:
    """Add each gradient to the first maximum of its window."""
    _check_sequences(value.shape, gradient, rows, columns)
    if rows.size * columns.size > value.size:
        raise InvalidArgumentError(
            f"Pooling region has more elements than the input tensor: {rows.size} and "
            f"{columns.size} ends of windows for an input of shape {shape_text(value.shape)}"
        )
    if out.shape != gradient.shape:
        raise InvalidArgumentError(
            "orig_output and out_backprop must have the same shape, got "
            f"{shape_text(out.shape)} and {shape_text(gradient.shape)}"
        )
    if min(gradient.shape[1:3]) == 0:  # there are no windows
        return np.zeros_like(value)
    windows = _Windows(value.shape, rows, columns, overlapping)
    if not (windows.heights.all() and windows.widths.all()):
        raise InvalidArgumentError("a window of the pooling sequences is empty")
    elements = windows.elements(value)
    is_wrong = np.isnan(windows.first(elements)) | (windows.reduced(np.fmax, elements) != out)
    if is_wrong.any():
        raise InvalidArgumentError(
            "tensor_out_dup is not the same as tensor_out: orig_output does not equal "
            "the pooled input"
        )
    is_best = elements == windows.repeated(out)
    hits = np.where(is_best, windows.positions(), np.iinfo(np.int64).max)
    total = np.zeros_like(value)
    indices = windows.indices(windows.reduced(np.minimum, hits))
    np.add.at(total.reshape(-1), indices, gradient.reshape(-1))
    return total


class _Windows:
    """The elements of all windows of images (batch, height, width, depth), one beside another."""

    def __init__(
        self, shape: Sequence[int], rows: Value, columns: Value, overlapping: bool
    ) -> None:
        self._shape = shape
        self._rows, self.heights = _members(rows, shape[1], overlapping)
        self._columns, self.widths = _members(columns, shape[2], overlapping)

    def elements(self, images: Value) -> Value:
        """Return the elements; those of several windows are repeated."""
        return images[:, self._rows[:, None], self._columns]

    def positions(self) -> Any:
        """Return the positions of the elements in their image, as an array that broadcasts."""
        return (self._rows[:, None] * self._shape[2] + self._columns)[None, :, :, None]

    def repeated(self, values: Value) -> Value:
        """Return the value of its window for each element."""
        return values.repeat(self.heights, axis=1).repeat(self.widths, axis=2)

    def first(self, elements: Value) -> Value:
        """Return the first element of each window."""
        return elements[:, _starts(self.heights)[:, None], _starts(self.widths)]

    def reduced(self, function: np.ufunc, elements: Value) -> Value:
        """Reduce the elements of each window; none may be empty."""
        by_row = function.reduceat(elements, _starts(self.heights), axis=1)
        reduced: Value = function.reduceat(by_row, _starts(self.widths), axis=2)
        return reduced

    def indices(self, positions: Any) -> Any:
        """Return the indices in flattened images of positions in each image and channel."""
        batch, height, width, depth = self._shape
        images = np.arange(batch)[:, None, None, None] * (height * width)
        return ((images + positions) * depth + np.arange(depth)).reshape(-1)


def _members(sequence: Value, size: int, overlapping: bool) -> tuple[Any, Any]:
    """Return the elements of the windows along an axis, one after the other, and their numbers."""
    cuts = list(_cut(sequence, size, overlapping))
    members = [np.arange(cut.start, cut.stop) for cut in cuts]
    return np.concatenate(members or [np.arange(0)]), np.array([*map(len, members)], np.intp)


def _starts(sizes: Any) -> Any:
    return np.cumsum(sizes) - sizes
