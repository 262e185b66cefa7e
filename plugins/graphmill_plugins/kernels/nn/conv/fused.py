"""Convolutions of an image that is first resized or padded with its mirror image, on NumPy.

Semantics: tensorflow/core/kernels/conv_ops_fused_image_transform.cc. Windows that do not reach both
edges of the padded image are centered in it, which differs from `Conv2D` for strides that leave
three or more rows or columns unused.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.array.pad import checked_paddings, mirrored_indices
from graphmill_plugins.kernels.image.resize import linear_neighbors, output_size
from graphmill_plugins.kernels.nn.conv.kernels import convolve
from graphmill_plugins.kernels.nn.conv.plan import convolution_plan
from graphmill_plugins.kernels.nn.window import Windows, make_windows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import Value
    from graphmill_plugins.kernels.nn.window import Axis


@kernel(
    "FusedPadConv2D",
    backend="numpy",
    types={"T": dtypes.FLOATING},
    static=("paddings",),
    expensive=True,
    make=True,
)
def fused_pad_conv_2d(
    mode: str, strides: Sequence[int], padding: str
) -> Callable[[Value, Value, Value], Value]:
    """Pad images with their mirror images, then convolve them.

    Raises:
        InvalidArgumentError: shapes, strides or paddings do not fit, or an operand is empty.
    """
    return partial(_pad_and_convolve, mode, _windows("FusedPadConv2D", strides, padding))


@kernel(
    "FusedResizeAndPadConv2D",
    backend="numpy",
    types={"T": (dtypes.float16, dtypes.float32, dtypes.float64)},
    static=("size", "paddings"),
    expensive=True,
    make=True,
)
def fused_resize_and_pad_conv_2d(
    resize_align_corners: bool, mode: str, strides: Sequence[int], padding: str
) -> Callable[[Value, Value, Value, Value], Value]:
    """Resize images bilinearly, pad them with their mirror images, then convolve them.

    Raises:
        InvalidArgumentError: shapes, sizes, strides or paddings do not fit, or an operand is empty.
    """
    windows = _windows("FusedResizeAndPadConv2D", strides, padding)

    def run(x: Value, size: Value, paddings: Value, filters: Value) -> Value:
        _check_images(x)
        resized = _resize(x, output_size(size, x), resize_align_corners)
        return _pad_and_convolve(mode, windows, resized, paddings, filters)

    return run


def _windows(op: str, strides: Sequence[int], padding: str) -> Windows:
    if len(strides) == 4 and (strides[0], strides[3]) != (1, 1):
        raise InvalidArgumentError(f"strides must be 1 for batch and channels, got {list(strides)}")
    return make_windows(
        op, strides=strides, padding=padding, data_format="NHWC", dilations=(1, 1, 1, 1), rank=4
    )


def _check_images(x: Value) -> None:
    if x.ndim != 4 or not x.size:
        raise InvalidArgumentError(
            f"input must be 4-dimensional and not empty, got shape {shape_text(x.shape)}"
        )


def _resize(x: Value, size: tuple[int, int], align_corners: bool) -> Value:
    """Resize images; unlike `ResizeBilinear`, keep their element type."""
    left, right, across = linear_neighbors(x.shape[2], size[1], align_corners, half=False)
    top, bottom, down = linear_neighbors(x.shape[1], size[0], align_corners, half=False)
    across, down = across.astype(x.dtype)[:, None], down.astype(x.dtype)[:, None, None]
    first = x[:, :, left]
    columns = first + (x[:, :, right] - first) * across
    first = columns[:, top]
    return first + (columns[:, bottom] - first) * down


def _pad_and_convolve(
    mode: str, windows: Windows, x: Value, paddings: Value, filters: Value
) -> Value:
    """Convolve the mirrored images."""
    _check_images(x)
    pairs = checked_paddings(paddings, 4)
    if any(pairs[0] + pairs[3]):
        raise InvalidArgumentError(
            f"paddings must be zero for batch and channels, got {pairs[0]} and {pairs[3]}"
        )
    if filters.ndim == 4 and filters.shape[2] != x.shape[3]:
        raise InvalidArgumentError(
            f"input and filter must have the same depth: {x.shape[3]} vs {filters.shape[2]}"
        )
    for axis in (1, 2):
        indices = mirrored_indices(x.shape[axis], pairs[axis], mode, axis)
        x = x if indices is None else x.take(indices, axis=axis)
    plan = convolution_plan(windows, x.shape, filters.shape)
    if 0 in plan.out:
        raise InvalidArgumentError(
            f"the output must not be empty, but its shape would be {shape_text(plan.out)}"
        )
    starts = [_start(axis, windows.padding) for axis in plan.axes]
    if any(starts):
        x = x[:, starts[0] :, starts[1] :]
        plan = convolution_plan(windows, x.shape, filters.shape)
    return convolve(x, filters, plan)


def _start(axis: Axis, padding: str) -> int:
    """Return the offset of the first window along an axis; in `Conv2D` it is always 0."""
    unused = axis.size - ((axis.out - 1) * axis.stride + axis.span)
    return max(0, unused - 1 if padding == "VALID" else unused) // 2
