"""The order of the axes of images, and the padding of windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill_plugins.jit.export.onnx.conversion import NodeConversion


@dataclass(frozen=True, slots=True)
class Layout:
    """The order of an image's axes; ONNX has the channels first.

    Attributes:
        image: the input that is the image.
        spatial: the number of axes besides batch and channels.
        is_first: whether the channels are first already.
    """

    image: int
    spatial: int
    is_first: bool

    @classmethod
    def of(cls, node: NodeConversion, *, image: int = 0, spatial: int | None = None) -> Layout:
        """Return the layout that the attr `data_format` names."""
        name = node.attr("data_format") if "data_format" in node.node.attrs else "NHWC"
        if name not in ("NHWC", "NCHW", "NDHWC", "NCDHW"):
            node.refuse(f"its data_format is {name}")
        return cls(image, spatial or len(name) - 2, name.startswith("NC"))

    @property
    def channel_axis(self) -> int:
        """The axis of the channels."""
        return 1 if self.is_first else self.spatial + 1

    @property
    def spatial_axes(self) -> range:
        """The axes that are neither batch nor channels."""
        return range(2, 2 + self.spatial) if self.is_first else range(1, 1 + self.spatial)

    def spatial_of(self, values: Sequence[Any]) -> list[int]:
        """Return the values for the spatial axes, from a list with a value for each axis."""
        return [int(values[axis]) for axis in self.spatial_axes]

    def channels_first(self, node: NodeConversion) -> str:
        """Return the image with its channels first."""
        name = node.inputs[self.image]
        if self.is_first:
            return name
        return node.transpose(name, [0, self.spatial + 1, *range(1, self.spatial + 1)])

    def restored(self, node: NodeConversion, name: str) -> str:
        """Return a result in the node's own layout."""
        return name if self.is_first else node.transpose(name, [0, *range(2, self.spatial + 2), 1])


def padding(
    node: NodeConversion,
    layout: Layout,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> dict[str, Any]:
    """Return the attributes that pad windows as TensorFlow does.

    Paddings of known sizes are numbers; for others ONNX computes them in the same way.
    """
    name = node.attr("padding")
    if name == "VALID":
        return {"pads": [0] * (2 * layout.spatial)}
    if name == "EXPLICIT":
        pairs = node.attr("explicit_paddings")
        axes = layout.spatial_axes
        return {"pads": [int(pairs[2 * a]) for a in axes] + [int(pairs[2 * a + 1]) for a in axes]}
    shape = node.input_shapes[layout.image]
    if shape is None or any(shape[axis] < 0 for axis in layout.spatial_axes):
        if any(size != 1 for size in dilations):
            node.refuse("it has dilations, and the size of its image is unknown")
        return {"auto_pad": "SAME_UPPER"}
    begins, ends = [], []
    for axis, size, stride, dilation in zip(
        layout.spatial_axes, kernel, strides, dilations, strict=True
    ):
        window = (size - 1) * dilation + 1
        total = max((-(-shape[axis] // stride) - 1) * stride + window - shape[axis], 0)
        begins.append(total // 2)
        ends.append(total - total // 2)
    return {"pads": [*begins, *ends]}
