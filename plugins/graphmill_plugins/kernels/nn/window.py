"""Compute the positions of convolution and pooling windows along each axis.

Semantics: tensorflow/core/framework/kernel_shape_util.cc, tensorflow/core/util/tensor_format.h.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from graphmill import errors
from graphmill_plugins.kernels._support import check_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import ArrayNamespace, Value

PLANS_OF_A_NODE = 64
"""Number of input shapes for which a node's kernel caches its plan."""

_CHANNELS_FIRST = frozenset({"NCHW", "NCDHW", "CHANNELS_FIRST"})
_CHANNELS_LAST = frozenset({"NHWC", "NDHWC", "CHANNELS_LAST"})


@dataclass(frozen=True, slots=True)
class Axis:
    """The windows along one spatial axis; all sizes count elements.

    Attributes:
        size: length of the input.
        kernel: taps of a window.
        stride: distance between neighbouring windows.
        dilation: distance between neighbouring taps of a window.
        before: padding in front of the input.
        after: padding behind the input that the last window reaches.
        out: number of windows.
    """

    size: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int
    out: int

    @property
    def span(self) -> int:
        """Length from the first to the last tap of a window, both included."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def padded(self) -> int:
        """Length of the input with its padding."""
        return self.before + self.size + self.after

    @property
    def is_pointwise(self) -> bool:
        """Whether a window is a single tap and nothing is padded."""
        return self.kernel == 1 and not (self.before or self.after)

    def taps(self, tap: int) -> slice:
        """Return the slice of the padded input that tap `tap` of all windows reads."""
        start = tap * self.dilation
        return slice(start, start + (self.out - 1) * self.stride + 1, self.stride)

    def overlap(self, tap: int) -> tuple[slice, slice]:
        """Return (windows, inputs): windows whose tap reads unpadded input, and these inputs.

        Both slices are empty when the tap falls into padding for every window.
        """
        offset = tap * self.dilation - self.before
        first = max(0, -(offset // self.stride)) if offset < 0 else 0
        last = min(self.out - 1, (self.size - 1 - offset) // self.stride)
        if last < first:
            return slice(0, 0), slice(0, 0)
        start = first * self.stride + offset
        stop = last * self.stride + offset + 1
        return slice(first, last + 1), slice(start, stop, self.stride)

    def trimmed(self) -> Axis:
        """Remove leading and trailing taps that read padding in every window.

        The result of a pool does not depend on them. Windows of a filter keep them, because each
        tap has a weight.
        """
        first = max(0, -(-(self.before - (self.out - 1) * self.stride) // self.dilation))
        last = max(0, self.kernel - 1 - (self.before + self.size - 1) // self.dilation)
        if not self.out or first + last >= self.kernel or not first + last:
            return self
        skipped = first * self.dilation
        return replace(
            self,
            kernel=self.kernel - first - last,
            before=self.before - skipped,
            after=max(0, self.after - last * self.dilation),
        )

    def counts(self) -> list[int]:
        """Return for each window the number of its taps that fall on the unpadded input."""
        counts = [0] * self.out
        for tap in range(self.kernel):
            windows, _ = self.overlap(tap)
            for window in range(windows.start, windows.stop):
                counts[window] += 1
        return counts


def _no_wider(dilation: int, enough: int) -> int:
    """Return an equivalent dilation of at most `enough + 1`, to bound memory.

    From `enough` on, all taps but the middle one read only padding. A larger dilation of the same
    parity adds equal padding on both sides, so windows do not change.
    """
    return min(dilation, enough + (dilation - enough) % 2)


@lru_cache(maxsize=4096)
def make_axis(
    size: int,
    kernel: int,
    stride: int,
    dilation: int,
    padding: str,
    before: int = 0,
    after: int = 0,
) -> Axis:
    """Compute the windows along one axis; `before`, `after` apply to `"EXPLICIT"` only.

    Raises:
        InvalidArgumentError: a stride or dilation below one, an unknown padding, or a window
            that is longer than the padded input.
    """
    if stride < 1:
        raise errors.InvalidArgumentError(f"Stride must be > 0, but got {stride}")
    if dilation < 1:
        raise errors.InvalidArgumentError(f"Dilation rate must be >= 1, but got {dilation}")
    if padding == "SAME":
        out = -(-size // stride)
        dilation = _no_wider(dilation, out * stride + 3 * size + 2)
        span = (kernel - 1) * dilation + 1
        total = max(0, (out - 1) * stride + span - size)
        return Axis(size, kernel, stride, dilation, total // 2, total - total // 2, out)
    span = (kernel - 1) * dilation + 1
    if padding == "VALID":
        before = after = 0
    elif padding != "EXPLICIT":
        raise errors.InvalidArgumentError(
            f"Unknown padding {padding!r}: expected 'SAME', 'VALID' or 'EXPLICIT'"
        )
    reach = size + before + after - span
    # C++ division truncates: a window that overshoots by less than a stride gives no output.
    out = (reach + stride) // stride if reach + stride >= 0 else -(-(reach + stride) // stride)
    if out < 0:
        raise errors.InvalidArgumentError(
            f"Computed output size would be negative: {out} [input_size: {size}, "
            f"padding: ({before}, {after}), effective_filter_size: {span}, stride: {stride}]"
        )
    return Axis(size, kernel, stride, dilation, before, after, out)


@dataclass(frozen=True, slots=True)
class Windows:
    """A node's window attributes, reduced to its spatial axes.

    Attributes:
        op: the op, for messages.
        strides, dilations: one number for each spatial axis.
        padding: `"SAME"`, `"VALID"` or `"EXPLICIT"`.
        pads: (before, after) for each spatial axis; zeros unless the padding is explicit.
        channels_first: whether axis 1 holds the channels instead of the last one.
        is_pool: whether taps have no weights, so that those beyond the input may be left out.
    """

    op: str
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: str
    pads: tuple[tuple[int, int], ...]
    channels_first: bool
    is_pool: bool = False

    @property
    def rank(self) -> int:
        """Rank of the input: the spatial axes, batch and channels."""
        return len(self.strides) + 2

    def axes(self, sizes: Sequence[int], kernel: Sequence[int]) -> tuple[Axis, ...]:
        """Compute the windows of size `kernel` over an input with spatial `sizes`."""
        axes = tuple(
            make_axis(size, taps, stride, dilation, self.padding, *pads)
            for size, taps, stride, dilation, pads in zip(
                sizes, kernel, self.strides, self.dilations, self.pads, strict=True
            )
        )
        return tuple(axis.trimmed() for axis in axes) if self.is_pool else axes

    def check_rank(self, shape: Sequence[int], what: str = "input") -> None:
        """Raise InvalidArgumentError unless `shape` has the rank of the input."""
        if len(shape) != self.rank:
            raise errors.InvalidArgumentError(
                f"{what} must be {self.rank}-dimensional, got shape {list(shape)}"
            )

    def to_channels_last(self, xp: ArrayNamespace, value: Value) -> Value:
        """Return `value` with its channels as the last axis (a view where possible)."""
        return xp.moveaxis(value, 1, -1) if self.channels_first else value

    def from_channels_last(self, xp: ArrayNamespace, value: Value) -> Value:
        """Return a channels-last `value` in the node's own format (a view where possible)."""
        return xp.moveaxis(value, -1, 1) if self.channels_first else value

    def shape_channels_last(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return a shape in the node's format with the channels last."""
        sizes = tuple(int(size) for size in shape)
        return (sizes[0], *sizes[2:], sizes[1]) if self.channels_first else sizes


def vector_input(value: Value, rank: int, what: str) -> tuple[int, ...]:
    """Return an input that holds a shape, as Python integers.

    Raises:
        InvalidArgumentError: it is not a vector.
    """
    array = np.asarray(value)
    if array.ndim != 1:
        raise errors.InvalidArgumentError(
            f"{what} input must be 1-dim of {rank} sizes, got {array.tolist()}"
        )
    return tuple(array.tolist())


def check_sizes(sizes: tuple[int, ...], rank: int, what: str) -> tuple[int, ...]:
    """Return `sizes` if they are a shape of `rank` axes.

    Raises:
        InvalidArgumentError: they are not.
    """
    if len(sizes) != rank or min(sizes) < 0:
        raise errors.InvalidArgumentError(
            f"{what} input must be 1-dim of {rank} sizes, got {list(sizes)}"
        )
    check_size(sizes, f"the tensor of {what}", itemsize=4)
    return sizes


def is_channels_first(op: str, data_format: str) -> bool:
    """Return whether axis 1 is the channel axis in `data_format`.

    Raises:
        UnimplementedError: for vectorized layouts (`NCHW_VECT_C`), which only some GPUs have.
        InvalidArgumentError: for an unknown layout.
    """
    if data_format in _CHANNELS_LAST:
        return False
    if data_format in _CHANNELS_FIRST:
        return True
    if data_format == "NCHW_VECT_C":
        raise errors.UnimplementedError(
            f"{op}: data_format 'NCHW_VECT_C' exists for int8 kernels of some GPUs only"
        )
    raise errors.InvalidArgumentError(f"Invalid data format {data_format!r} for {op}")


def spatial(values: Sequence[int], channels_first: bool) -> tuple[int, ...]:
    """Return the values of the spatial axes, given one value for each axis of the input."""
    return tuple(values[2:] if channels_first else values[1:-1])


def make_windows(
    op: str,
    *,
    strides: Sequence[int],
    padding: str,
    data_format: str,
    dilations: Sequence[int] | None = None,
    explicit_paddings: Sequence[int] = (),
    rank: int = 4,
) -> Windows:
    """Check the window attributes of a node and reduce them to the spatial axes.

    Raises:
        InvalidArgumentError: for lists of the wrong length, values below one, and misplaced
            explicit paddings.
        UnimplementedError: for strides or dilations over the batch or the channels.
    """
    first = is_channels_first(op, data_format)
    dilations = tuple(dilations or (1,) * rank)
    for name, values in (("strides", strides), ("dilations", dilations)):
        if len(values) != rank:
            raise errors.InvalidArgumentError(
                f"Sliding window {name} field must specify {rank} dimensions, got {list(values)}"
            )
        channel = values[1] if first else values[-1]
        if values[0] != 1 or channel != 1:
            raise errors.UnimplementedError(
                "Current implementation does not yet support "
                f"{name} in the batch and depth dimensions; {op} has {name}={list(values)}"
            )
        if min(values) < 1:
            raise errors.InvalidArgumentError(
                f"{name} of {op} must be positive, got {list(values)}"
            )
    return Windows(
        op=op,
        strides=spatial(strides, first),
        dilations=spatial(dilations, first),
        padding=padding,
        pads=_explicit_pads(op, padding, explicit_paddings, rank, first),
        channels_first=first,
    )


def _explicit_pads(
    op: str, padding: str, explicit: Sequence[int], rank: int, first: bool
) -> tuple[tuple[int, int], ...]:
    if padding != "EXPLICIT":
        if explicit:
            raise errors.InvalidArgumentError(
                f"explicit_paddings attribute must be empty if the padding attribute of {op} "
                f"is not EXPLICIT, got {list(explicit)}"
            )
        return ((0, 0),) * (rank - 2)
    if len(explicit) != 2 * rank:
        raise errors.InvalidArgumentError(
            f"explicit_paddings attribute must contain {2 * rank} values, but got: {len(explicit)}"
        )
    pairs = [(explicit[2 * axis], explicit[2 * axis + 1]) for axis in range(rank)]
    if min(explicit) < 0:
        raise errors.InvalidArgumentError(
            f"All elements of explicit_paddings must be nonnegative, got {list(explicit)}"
        )
    if any(pairs[0]) or any(pairs[1 if first else -1]):
        raise errors.InvalidArgumentError(
            "Nonzero explicit padding in the batch or depth dimensions is not supported, "
            f"got {list(explicit)}"
        )
    return tuple(pairs[2:] if first else pairs[1:-1])
