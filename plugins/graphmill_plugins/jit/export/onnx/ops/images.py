"""Resizing of images, and moves between channels and blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphmill import dtypes
from graphmill_plugins.jit.export.onnx.conversion import table
from graphmill_plugins.jit.export.onnx.ops.images_layout import Layout

if TYPE_CHECKING:
    from graphmill_plugins.jit.export.onnx.conversion import NodeConversion

CONVERSIONS, converts = table()
_LAYOUT = Layout(0, 2, False)


@converts("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic")
def resize(node: NodeConversion) -> str:
    """Resize images to a height and width."""
    is_nearest = node.node.op == "ResizeNearestNeighbor"
    corners, half = node.attr("align_corners"), node.attr("half_pixel_centers")
    coordinates = "align_corners" if corners else "half_pixel" if half else "asymmetric"
    attrs: dict[str, object] = {"coordinate_transformation_mode": coordinates}
    if is_nearest:
        attrs |= {"mode": "nearest", "nearest_mode": "round_prefer_ceil" if corners else "floor"}
        if half:
            # Pixel i is floor((i + 0.5) * scale), which rounds (i + 0.5) * scale - 0.5.
            attrs["nearest_mode"] = "round_prefer_ceil"
    elif node.node.op == "ResizeBicubic":
        attrs |= {"mode": "cubic", "cubic_coeff_a": -0.5 if half else -0.75}
        if half:
            attrs["exclude_outside"] = 1
    else:
        attrs["mode"] = "linear"
    image = _LAYOUT.channels_first(node)
    if node.dtype() is not node.output_dtype():
        image = node.cast(image, node.output_dtype())
    batch_and_channels = node.emit("Slice", node.emit("Shape", image), node.sizes(0), node.sizes(2))
    sizes = node.emit("Concat", batch_and_channels, node.as_sizes(1), axis=0)
    return _LAYOUT.restored(node, node.emit("Resize", image, "", "", sizes, **attrs))


@converts("DepthToSpace")
def depth_to_space(node: NodeConversion) -> str:
    """Move channels into blocks of pixels."""
    layout = Layout.of(node)
    block = int(node.attr("block_size"))
    image = layout.channels_first(node)
    return layout.restored(node, node.emit("DepthToSpace", image, blocksize=block, mode="DCR"))


@converts("SpaceToDepth")
def space_to_depth(node: NodeConversion) -> str:
    """Move blocks of pixels into channels."""
    layout = Layout.of(node)
    block = int(node.attr("block_size"))
    image = layout.channels_first(node)
    return layout.restored(node, node.emit("SpaceToDepth", image, blocksize=block))


@converts("AdjustContrastv2")
def adjust_contrast(node: NodeConversion) -> str:
    """Move values away from the mean of each channel of an image."""
    axes = node.constant(np.array([-3, -2], np.int64))
    mean = node.emit("ReduceMean", node.inputs[0], axes, keepdims=1)
    factor = node.inputs[1]
    if node.dtype() is not dtypes.float32:
        factor = node.cast(factor, node.dtype())
    scaled = node.emit("Mul", node.emit("Sub", node.inputs[0], mean), factor)
    return node.emit("Add", scaled, mean)
