"""Check the attributes and shapes of a pooling, and plan its geometry.

Semantics: tensorflow/core/kernels/maxpooling_op.cc, avgpooling_op.cc, pooling_ops_3d.cc.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes, errors
from graphmill_plugins.kernels.nn.window import (
    Axis,
    Windows,
    is_channels_first,
    make_windows,
    spatial,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import Value

    Shape = tuple[int, ...]

_CACHED_AXES = 64  # whose counts are kept; networks have few sizes of images


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """The channels-last shapes of one pooling, and the positions of its windows.

    Attributes:
        shape: shape of the input, without the elements before the first windows.
        out: shape of the output.
        axes: the windows along each spatial axis.
        cut: index that removes the elements before the first windows; None if there are none.
    """

    shape: Shape
    out: Shape
    axes: tuple[Axis, ...]
    cut: tuple[slice, ...] | None = None


@dataclass(frozen=True, slots=True)
class PoolWindows:
    """The windows of a pooling node: their position, and their size along each spatial axis."""

    windows: Windows
    ksize: tuple[int, ...]

    def plan(self, input_shape: Sequence[int]) -> PoolPlan:
        """Return the plan for an input shape in the node's format.

        Raises:
            InvalidArgumentError: the shape has another rank, or is smaller than a window.
        """
        self.windows.check_rank(input_shape, "tensor_in")
        shape = self.windows.shape_channels_last(input_shape)
        skipped = self._skipped(shape[1:-1])
        if any(skipped):
            spatial_sizes = (size - skip for size, skip in zip(shape[1:-1], skipped, strict=True))
            shape = (shape[0], *spatial_sizes, shape[-1])
            cut = (slice(None), *(slice(skip, None) for skip in skipped))
            return replace(self._plan_of(shape), cut=cut)
        return self._plan_of(shape)

    def gradient_plan(self, input_shape: Sequence[int], *outputs: Sequence[int]) -> PoolPlan:
        """Return the plan for the gradient of an input shape.

        Args:
            input_shape: shape of the input, in the node's format.
            outputs: shapes that must equal the output's, in the node's format.

        Raises:
            InvalidArgumentError: the shapes do not fit.
        """
        self.windows.check_rank(input_shape, "tensor_in")
        plan = self._plan_of(self.windows.shape_channels_last(input_shape))
        for shape in outputs:
            check_shape(self.windows, shape, plan.out)
        return plan

    def _plan_of(self, shape: Shape) -> PoolPlan:
        axes = self.windows.axes(shape[1:-1], self.ksize)
        return PoolPlan(shape, (shape[0], *(axis.out for axis in axes), shape[-1]), axes)

    def _skipped(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Return the number of elements of each spatial axis before the first window.

        If "SAME" windows have gaps and do not fill the input, Eigen's 3-D pooling places half of
        the uncovered elements before the first window. Its 2-D pooling places none there.
        """
        if self.windows.rank != 5 or self.windows.padding != "SAME":
            return ()
        return tuple(
            max(size - (-(-size // stride) - 1) * stride - taps, 0) // 2
            for size, stride, taps in zip(sizes, self.windows.strides, self.ksize, strict=True)
        )


def check_shape(windows: Windows, actual: Sequence[int], expected: Shape) -> None:
    """Raise InvalidArgumentError unless a shape in the node's format is the output's."""
    shape = windows.shape_channels_last(actual) if len(actual) > 1 else tuple(actual)
    if shape != expected:
        raise errors.InvalidArgumentError(
            f"{windows.op}: expected orig_output and gradients of shape {list(expected)} "
            f"(channels last), got {list(shape)}"
        )


def pool_windows(
    op: str,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    data_format: str,
    explicit_paddings: Sequence[int] = (),
    rank: int = 4,
) -> PoolWindows:
    """Return the windows of a pooling node.

    Raises:
        InvalidArgumentError: `ksize` has the wrong length or a value below one.
        UnimplementedError: the windows span the batch or the channels.
    """
    if len(ksize) != rank:
        raise errors.InvalidArgumentError(
            f"Sliding window ksize field must specify {rank} dimensions, got {list(ksize)}"
        )
    if min(ksize) < 1:
        raise errors.InvalidArgumentError(
            f"Sliding window ksize for dimension {list(ksize).index(min(ksize))} was "
            f"{min(ksize)}; {op} needs sizes of at least 1"
        )
    first = is_channels_first(op, data_format)
    if ksize[0] != 1 or ksize[1 if first else -1] != 1:
        raise errors.UnimplementedError(
            f"{op} over the batch, or over channels and space, is not supported; it has "
            f"ksize={list(ksize)}"
        )
    windows = make_windows(
        op,
        strides=strides,
        padding=padding,
        data_format=data_format,
        explicit_paddings=explicit_paddings,
        rank=rank,
    )
    return PoolWindows(replace(windows, is_pool=True), spatial(ksize, first))


def check_vector(name: str, value: Value) -> tuple[int, ...]:
    """Return a window input (ksize, strides) as four integers.

    Raises:
        InvalidArgumentError: it is not a vector of four elements.
    """
    array = np.asarray(value)
    if array.shape != (4,):
        raise errors.InvalidArgumentError(
            f"Sliding window {name} must be a vector of 4 elements, got shape {list(array.shape)}"
        )
    return tuple(array.tolist())


def lowest(dtype: np.dtype[Any]) -> Any:
    """Return the smallest value of a real dtype, which pads the input of a maximum."""
    kind = dtypes.as_dtype(dtype)
    return dtype.type(-np.inf) if kind.is_floating else kind.min


def window_counts(axes: Sequence[Axis], dtype: np.dtype[Any]) -> Any:
    """Return the number of inputs that each window covers, as a scalar or (spatial axes …, 1)."""
    counts = [_counts_along(axis) for axis in axes]
    if all(row.size == 1 for row in counts):
        return dtype.type(np.prod([row[0] for row in counts]))
    total = np.ones((), dtype)
    for row in counts:
        total = total[..., None] * row.astype(dtype)
    return total[..., None]


@lru_cache(_CACHED_AXES)
def _counts_along(axis: Axis) -> Any:
    """Return the number of inputs that each window of an axis covers; one number if all agree."""
    counts = axis.counts() or [1]
    return np.array(counts if min(counts) < max(counts) else counts[:1])
