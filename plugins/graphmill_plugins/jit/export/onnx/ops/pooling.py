"""Pooling of images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill_plugins.jit.export.onnx.conversion import table
from graphmill_plugins.jit.export.onnx.ops.images_layout import Layout, padding

if TYPE_CHECKING:
    from graphmill_plugins.jit.export.onnx.conversion import NodeConversion

CONVERSIONS, converts = table()


@converts("MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D")
def pool(node: NodeConversion) -> str:
    """Reduce windows of each channel; padding does not count in averages."""
    layout = Layout.of(node)
    kernel, strides = layout.spatial_of(node.attr("ksize")), layout.spatial_of(node.attr("strides"))
    for name in ("ksize", "strides"):
        if node.attr(name)[0] != 1 or node.attr(name)[layout.channel_axis] != 1:
            node.refuse("it pools over batch or channels")
    attrs = padding(node, layout, kernel, strides, [1] * layout.spatial)
    op = "MaxPool" if node.node.op.startswith("Max") else "AveragePool"
    image = layout.channels_first(node)
    return layout.restored(
        node, node.emit(op, image, kernel_shape=kernel, strides=strides, **attrs)
    )
