"""Batch normalization for inference, and local response normalization."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill_plugins.jit.export.onnx.conversion import table
from graphmill_plugins.jit.export.onnx.ops.images_layout import Layout

if TYPE_CHECKING:
    from graphmill_plugins.jit.export.onnx.conversion import NodeConversion

CONVERSIONS, converts = table()


@converts("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def fused_batch_norm(node: NodeConversion) -> list[str]:
    """Normalize by the given moments; the other outputs are for training."""
    if node.attr("is_training"):
        node.refuse("it computes the moments of a batch (is_training), for training only")
    layout = Layout.of(node)
    scale, offset, mean, variance = node.inputs[1:5]
    result = node.emit(
        "BatchNormalization",
        layout.channels_first(node),
        scale,
        offset,
        mean,
        variance,
        epsilon=float(node.attr("epsilon")),
    )
    unused = [mean, variance, mean, variance, mean]
    return [layout.restored(node, result), *unused[: node.node.num_outputs - 1]]


@converts("LRN")
def local_response_normalization(node: NodeConversion) -> str:
    """Normalize over neighbouring channels; ONNX divides alpha by the window's size."""
    window = 2 * int(node.attr("depth_radius")) + 1
    attrs = {name: float(node.attr(name)) for name in ("alpha", "beta", "bias")}
    attrs["alpha"] *= window
    layout = Layout(0, 2, False)
    return layout.restored(
        node, node.emit("LRN", layout.channels_first(node), size=window, **attrs)
    )
