"""Products of matrices, and convolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill_plugins.jit.export.onnx.conversion import table
from graphmill_plugins.jit.export.onnx.ops.images_layout import Layout, padding

if TYPE_CHECKING:
    from graphmill_plugins.jit.export.onnx.conversion import NodeConversion

CONVERSIONS, converts = table()


def _flipped(node: NodeConversion, index: int) -> str:
    rank = node.rank(index)
    return node.transpose(node.inputs[index], [*range(rank - 2), rank - 1, rank - 2])


def _product(node: NodeConversion, flips: tuple[bool, bool]) -> str:
    factors = [_flipped(node, i) if flip else node.inputs[i] for i, flip in enumerate(flips)]
    return node.emit("MatMul", *factors)


@converts("MatMul")
def mat_mul(node: NodeConversion) -> str:
    """Multiply two matrices."""
    return _product(node, (node.attr("transpose_a"), node.attr("transpose_b")))


@converts("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def batch_mat_mul(node: NodeConversion) -> str:
    """Multiply matrices in the last two axes."""
    if node.dtype().is_complex:
        node.refuse("ONNX has no products of complex matrices")
    if node.dtype(0) is not node.output_dtype():
        node.refuse("its result has another element type than its inputs")
    return _product(node, (node.attr("adj_x"), node.attr("adj_y")))


@converts("Einsum")
def einsum(node: NodeConversion) -> str:
    """Contract by an equation."""
    return node.emit("Einsum", *node.inputs, equation=node.attr("equation"))


@converts("BiasAdd", "BiasAddV1")
def bias_add(node: NodeConversion) -> str:
    """Add a vector to each row of channels."""
    bias = node.inputs[1]
    if node.node.attrs.get("data_format", b"NHWC") == b"NCHW" and node.rank(0) > 2:
        bias = node.reshape(bias, -1, *([1] * (node.rank(0) - 2)))
    return node.emit("Add", node.inputs[0], bias)


def _convolution(node: NodeConversion, kernel: str, layout: Layout, **attrs: Any) -> str:
    shape = node.input_shapes[1]
    if shape is None:
        node.refuse("the shape of its kernel is unknown")
    kernel_sizes = list(shape[: layout.spatial])
    dilations = layout.spatial_of(node.attr("dilations"))
    strides = layout.spatial_of(node.attr("strides"))
    attrs |= {"strides": strides, "dilations": dilations}
    if min(kernel_sizes) > 0:
        attrs["kernel_shape"] = kernel_sizes
    attrs |= padding(node, layout, kernel_sizes, strides, dilations)
    return layout.restored(node, node.emit("Conv", layout.channels_first(node), kernel, **attrs))


@converts("Conv2D", "Conv3D")
def conv(node: NodeConversion) -> str:
    """Convolve; the kernel has its channels last in TensorFlow and first in ONNX."""
    layout = Layout.of(node)
    spatial = layout.spatial
    kernel = node.transpose(node.inputs[1], [spatial + 1, spatial, *range(spatial)])
    channels = node.size(0, layout.channel_axis)
    return _convolution(node, kernel, layout, group=channels // node.size(1, spatial))


@converts("DepthwiseConv2dNative")
def depthwise_conv(node: NodeConversion) -> str:
    """Convolve each channel by kernels of its own."""
    layout = Layout.of(node)
    height, width, channels, multiplier = (node.size(1, axis) for axis in range(4))
    kernel = node.reshape(node.inputs[1], height, width, 1, channels * multiplier)
    kernel = node.transpose(kernel, [3, 2, 0, 1])
    return _convolution(node, kernel, layout, group=channels)


@converts("Conv2DBackpropInput")
def conv_transpose(node: NodeConversion) -> str:
    """Compute a transposed convolution; inputs: the output's sizes, the kernel, and the image."""
    layout = Layout.of(node, image=2)
    shape = node.output_shapes[0]
    outputs = [] if shape is None else [shape[axis] for axis in layout.spatial_axes]
    if not outputs or min(outputs) < 0:
        node.refuse("the height and width of its output are unknown")
    strides = layout.spatial_of(node.attr("strides"))
    if any(size != 1 for size in layout.spatial_of(node.attr("dilations"))):
        node.refuse("it has dilations")
    if node.attr("padding") not in ("SAME", "VALID"):
        node.refuse("it has explicit paddings")
    kernel = node.transpose(node.inputs[1], [3, 2, 0, 1])
    kernels = [node.size(1, axis) for axis in range(2)]
    images = [node.size(2, axis) for axis in layout.spatial_axes]
    pads = [
        (image - 1) * stride + size - output
        for image, stride, size, output in zip(images, strides, kernels, outputs, strict=True)
    ]
    begins = [max(pad, 0) // 2 for pad in pads]
    ends = [max(pad, 0) - begin for pad, begin in zip(pads, begins, strict=True)]
    result = node.emit(
        "ConvTranspose",
        layout.channels_first(node),
        kernel,
        strides=strides,
        kernel_shape=kernels,
        pads=[*begins, *ends],
        output_padding=[max(-pad, 0) for pad in pads],
    )
    return layout.restored(node, result)
