"""Convolution, pooling and batch normalization with PyTorch's functions.

Semantics: `tensorflow/core/kernels/conv_ops.cc`, `maxpooling_op.cc`, `fused_batch_norm_op.cc`.
PyTorch expects NCHW and pads both sides equally. TensorFlow's tensors may be NHWC, and SAME may pad
one element more at the end.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from graphmill.spi import errors, kernel
from graphmill_torch.kernels.elementwise import FLOATS

_T = {"T": FLOATS}


def channels_second(x: Any, data_format: str) -> Any:
    """Convert a batch of images from `data_format` to NCHW."""
    return x if data_format == "NCHW" else x.permute(0, 3, 1, 2)


def channels_back(x: Any, data_format: str) -> Any:
    """Convert a batch of images from NCHW to `data_format`."""
    return x if data_format == "NCHW" else x.permute(0, 2, 3, 1)


def spatial(values: Any, data_format: str) -> tuple[int, int]:
    """Return the two spatial entries of a four-entry attr."""
    start = 2 if data_format == "NCHW" else 1
    return values[start], values[start + 1]


def pads(
    sizes: Any, taps: Any, strides: Any, dilations: Any, padding: str, explicit: Any, layout: str
) -> list[tuple[int, int]]:
    """Return the padding before and after each of height and width."""
    if padding == "VALID":
        return [(0, 0), (0, 0)]
    if padding == "EXPLICIT":
        start = 4 if layout == "NCHW" else 2
        return [(explicit[start], explicit[start + 1]), (explicit[start + 2], explicit[start + 3])]
    paddings = []
    for size, tap, stride, dilation in zip(sizes, taps, strides, dilations, strict=True):
        extent = (tap - 1) * dilation + 1
        total = max((-(-size // stride) - 1) * stride + extent - size, 0)
        paddings.append((total // 2, total - total // 2))
    return paddings


def padded(x: Any, paddings: list[tuple[int, int]], value: float = 0.0) -> Any:
    """Return a padded NCHW batch."""
    (top, bottom), (left, right) = paddings
    if not any((top, bottom, left, right)):
        return x
    return functional.pad(x, (left, right, top, bottom), value=value)


def bounded_dilations(dilations: Any, sizes: Any, strides: Any, padding: str) -> tuple[int, ...]:
    """Reduce dilations that exceed the input, without changing the result or the parity.

    With SAME padding, from some dilation on all taps except the middle one read only padding, and
    larger dilations only add equal padding on both sides. Reducing them bounds the memory.
    """
    if padding != "SAME":
        return tuple(dilations)
    bounded = []
    for dilation, size, stride in zip(dilations, sizes, strides, strict=True):
        enough = -(-size // stride) * stride + 3 * size + 2
        bounded.append(min(dilation, enough + (dilation - enough) % 2))
    return tuple(bounded)


class _Geometry:
    """Strides, dilations and padding of a convolution."""

    def __init__(
        self, x_shape: Any, w_shape: Any, strides: Any, dilations: Any, padding: str, explicit: Any,
        layout: str,
    ) -> None:  # fmt: skip
        if len(x_shape) != 4 or len(w_shape) != 4:
            raise ValueError(f"input and filter must be 4-dimensional: {x_shape}, {w_shape}")
        channel = 1 if layout == "NCHW" else 3
        if strides[0] != 1 or strides[channel] != 1 or dilations[0] != 1 or dilations[channel] != 1:
            raise errors.UnimplementedError(
                "strides and dilations over the batch and the channels are not supported"
            )
        self.strides = spatial(strides, layout)
        self.sizes = spatial(x_shape, layout)
        requested = spatial(dilations, layout)
        self.dilations = bounded_dilations(requested, self.sizes, self.strides, padding)
        self.channels = x_shape[channel]
        if not w_shape[2] or self.channels % w_shape[2]:
            raise ValueError(
                f"input depth must be evenly divisible by filter depth: {self.channels} vs "
                f"{w_shape[2]}"
            )
        self.groups = self.channels // w_shape[2]
        self.pads = pads(
            self.sizes, w_shape[:2], self.strides, self.dilations, padding, explicit, layout
        )


@kernel("Conv2D", backend="torch", types=_T)
def conv2d(
    xp: Any, input: Any, filter: Any, *, strides: Any, padding: str, explicit_paddings: Any,  # noqa: A002
    data_format: str, dilations: Any,
) -> Any:  # fmt: skip
    """Compute a 2-D convolution."""
    del xp
    shape = tuple(input.shape)
    geometry = _Geometry(
        shape, tuple(filter.shape), strides, dilations, padding, explicit_paddings, data_format
    )
    x = padded(channels_second(input, data_format), geometry.pads)
    w = filter.permute(3, 2, 0, 1)
    y = _convolution(x, w, geometry.strides, geometry.dilations, geometry.groups)
    if y.numel() and not w.numel():
        raise errors.InvalidArgumentError(
            f"the filter has no elements: its shape is {list(filter.shape)}"
        )
    return channels_back(y, data_format)


def _convolution(x: Any, w: Any, strides: Any, dilations: Any, groups: int) -> Any:
    """Convolve padded images with filters, both in PyTorch's layout; either may be empty."""
    extents = [(tap - 1) * rate + 1 for tap, rate in zip(w.shape[2:], dilations, strict=True)]
    sizes = [
        max((size - extent) // step + 1, 0)
        for size, extent, step in zip(x.shape[2:], extents, strides, strict=True)
    ]
    if not all((*sizes, x.numel(), w.numel())):  # PyTorch refuses these
        return x.new_zeros(x.shape[0], w.shape[0], *sizes)
    return functional.conv2d(x, w, None, strides, 0, dilations, groups)


@kernel("DepthwiseConv2dNative", backend="torch", types=_T)
def depthwise_conv2d(
    xp: Any, input: Any, filter: Any, *, strides: Any, padding: str, explicit_paddings: Any,  # noqa: A002
    data_format: str, dilations: Any,
) -> Any:  # fmt: skip
    """Compute a depthwise convolution."""
    del xp
    if input.ndim != 4 or filter.ndim != 4:
        raise ValueError(
            f"input and filter must be 4-dimensional: {tuple(input.shape)}, {tuple(filter.shape)}"
        )
    height, width, channels, multiplier = filter.shape
    step, rates = spatial(strides, data_format), spatial(dilations, data_format)
    if input.shape[1 if data_format == "NCHW" else 3] != channels:
        raise ValueError(
            f"input and filter must have the same depth: {tuple(input.shape)}, "
            f"{tuple(filter.shape)}"
        )
    sizes = spatial(input.shape, data_format)
    rates = bounded_dilations(rates, sizes, step, padding)
    paddings = pads(sizes, (height, width), step, rates, padding, explicit_paddings, data_format)
    x = padded(channels_second(input, data_format), paddings)
    w = filter.permute(2, 3, 0, 1).reshape(channels * multiplier, 1, height, width)
    y = _convolution(x, w, step, rates, channels)
    return channels_back(y, data_format)


def _gradients(geometry: _Geometry, x: Any, w: Any, dy: Any, needed: tuple[bool, bool]) -> Any:
    """Return the gradients of the padded input and the filter, both in PyTorch's layout."""
    return torch.ops.aten.convolution_backward(
        dy, x, w, None, geometry.strides, (0, 0), geometry.dilations, False, (0, 0),
        geometry.groups,
        (*needed, False),
    )  # fmt: skip


@kernel("Conv2DBackpropInput", backend="torch", types=_T, static=("input_sizes",))
def conv2d_backprop_input(
    xp: Any, input_sizes: Any, filter: Any, out_backprop: Any, *, strides: Any, padding: str,  # noqa: A002
    explicit_paddings: Any, data_format: str, dilations: Any,
) -> Any:  # fmt: skip
    """Compute the gradient of a convolution with respect to its input."""
    del xp
    shape = tuple(int(size) for size in input_sizes)
    if len(shape) == 2:
        batch = (out_backprop.shape[0],)
        depth = (filter.shape[2],)
        shape = batch + (depth + shape if data_format == "NCHW" else shape + depth)
    geometry = _Geometry(
        shape, tuple(filter.shape), strides, dilations, padding, explicit_paddings, data_format
    )
    (top, bottom), (left, right) = geometry.pads
    height, width = geometry.sizes
    x = filter.new_zeros(shape[0], geometry.channels, height + top + bottom, width + left + right)
    dy = channels_second(out_backprop, data_format)
    dx = _gradients(geometry, x, filter.permute(3, 2, 0, 1), dy, (True, False))[0]
    dx = dx[:, :, top : top + height, left : left + width]
    return channels_back(dx, data_format).contiguous()


@kernel("Conv2DBackpropFilter", backend="torch", types=_T, static=("filter_sizes",))
def conv2d_backprop_filter(
    xp: Any, input: Any, filter_sizes: Any, out_backprop: Any, *, strides: Any, padding: str,  # noqa: A002
    explicit_paddings: Any, data_format: str, dilations: Any,
) -> Any:  # fmt: skip
    """Compute the gradient of a convolution with respect to its filter."""
    del xp
    shape = tuple(int(size) for size in filter_sizes)
    geometry = _Geometry(
        tuple(input.shape), shape, strides, dilations, padding, explicit_paddings, data_format
    )
    x = padded(channels_second(input, data_format), geometry.pads)
    w = input.new_zeros(shape).permute(3, 2, 0, 1)
    dy = channels_second(out_backprop, data_format)
    return _gradients(geometry, x, w, dy, (False, True))[1].permute(2, 3, 1, 0).contiguous()


@kernel("MaxPool", backend="torch", types=_T)
def max_pool(
    xp: Any, input: Any, *, ksize: Any, strides: Any, padding: str, explicit_paddings: Any,  # noqa: A002
    data_format: str,
) -> Any:  # fmt: skip
    """Compute the maximum of each window."""
    del xp
    if input.ndim != 4:
        raise errors.InvalidArgumentError(
            f"the input must be 4-dimensional, but has shape {tuple(input.shape)}"
        )
    if data_format == "NHWC" and ksize[3] > 1:
        return _max_over_channels(input, ksize, strides)
    taps, step = _windows(input, ksize, strides, data_format)
    sizes = spatial(input.shape, data_format)
    paddings = pads(sizes, taps, step, (1, 1), padding, explicit_paddings, data_format)
    x = padded(channels_second(input, data_format), paddings, float("-inf"))
    if _is_empty(x, taps):
        return _empty_output(x, taps, step, data_format)
    return channels_back(functional.max_pool2d(x, taps, step), data_format)


@kernel("AvgPool", backend="torch", types=_T)
def avg_pool(
    xp: Any, value: Any, *, ksize: Any, strides: Any, padding: str, data_format: str
) -> Any:
    """Compute the mean of each window, excluding the padding."""
    del xp
    taps, step = _windows(value, ksize, strides, data_format)
    sizes = spatial(value.shape, data_format)
    paddings = pads(sizes, taps, step, (1, 1), padding, (), data_format)
    unpadded = channels_second(value, data_format)
    x = padded(unpadded, paddings)
    if _is_empty(x, taps):
        return _empty_output(x, taps, step, data_format)
    mean = functional.avg_pool2d(x, taps, step)
    if padding != "SAME":
        return channels_back(mean, data_format)
    share = functional.avg_pool2d(padded(torch.ones_like(unpadded), paddings), taps, step)
    return channels_back(mean / share, data_format)


def _max_over_channels(x: Any, ksize: Any, strides: Any) -> Any:
    """Compute the maximum of each group of channels (MaxPoolingOp's depthwise case)."""
    depth = ksize[3]
    if tuple(ksize[:3]) != (1, 1, 1) or strides[3] != depth or x.shape[3] % depth:
        raise errors.UnimplementedError(
            "Depthwise max pooling requires the depth window to equal the depth stride, to divide "
            "the depth, and no spatial window"
        )
    rows, columns = strides[1:3]
    return x[:, ::rows, ::columns].unflatten(3, (-1, depth)).amax(4)


def _is_empty(x: Any, taps: Any) -> bool:
    return not x.numel() or any(n < tap for n, tap in zip(x.shape[2:], taps, strict=True))


def _empty_output(x: Any, taps: Any, step: Any, layout: str) -> Any:
    """Return a pooling output without elements; PyTorch's pooling refuses such shapes."""
    sizes = [
        max((n - tap) // stride + 1, 0)
        for n, tap, stride in zip(x.shape[2:], taps, step, strict=True)
    ]
    return channels_back(x.new_zeros(*x.shape[:2], *sizes), layout)


def _windows(x: Any, ksize: Any, strides: Any, layout: str) -> tuple[Any, Any]:
    if x.ndim != 4:
        raise ValueError(f"tensor_in must be 4-dimensional, got {tuple(x.shape)}")
    if ksize[0] != 1 or ksize[1 if layout == "NCHW" else 3] != 1:
        raise errors.UnimplementedError("Pooling is not supported over the batch or the channels")
    return spatial(ksize, layout), spatial(strides, layout)


@kernel("FusedBatchNormV3", backend="torch", types={"T": FLOATS[:1], "U": FLOATS[:1]})
def fused_batch_norm(
    xp: Any, x: Any, scale: Any, offset: Any, mean: Any, variance: Any, *, epsilon: float,
    exponential_avg_factor: float, data_format: str, is_training: bool,
) -> Any:  # fmt: skip
    """Normalize each channel by the statistics of the batch or of the inputs."""
    del xp
    if x.ndim not in (4, 5):
        raise ValueError(f"input must be 4-dimensional, got {tuple(x.shape)}")
    axis = 1 if data_format.startswith("NC") else x.ndim - 1
    if any(tuple(given.shape) != (x.shape[axis],) for given in (scale, offset)):
        raise ValueError(f"scale and offset must have {x.shape[axis]} elements")
    reduced_axes = tuple(i for i in range(x.ndim) if i != axis)
    form = [-1 if i == axis else 1 for i in range(x.ndim)]
    batch_mean, batch_variance = mean, variance
    if is_training:
        batch_mean = x.mean(reduced_axes)
        batch_variance = x.var(reduced_axes, correction=0)
    factor = scale * torch.rsqrt(batch_variance + epsilon)
    y = x * factor.reshape(form) + (offset - batch_mean * factor).reshape(form)
    if not is_training:
        return y, mean, variance, mean, variance, x.new_zeros(())
    count = x.numel() // x.shape[axis]
    running = batch_variance * (count / max(count - 1, 1))
    mixed = (batch_mean, running)
    if exponential_avg_factor != 1.0:
        share = exponential_avg_factor
        mixed = (
            mean * (1 - share) + batch_mean * share,
            variance * (1 - share) + running * share,
        )
    return y, *mixed, batch_mean, batch_variance, x.new_zeros(())
