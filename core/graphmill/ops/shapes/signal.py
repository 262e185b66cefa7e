"""Shapes of Fourier transforms of real numbers.

Semantics: tensorflow/core/ops/spectral_ops.cc.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from graphmill.ops.inference.shape_inference import ShapeContext, ShapeFunction
    from graphmill.ops.inference.tensor_shape import Size, TensorShape


def transformed(op: ShapeContext, axes: int, *, is_forward: bool) -> TensorShape:
    """Return the shape of a transform over the last axes; half of the last one is stored."""
    shape = op.inputs[0].with_rank_at_least(axes)
    if shape.dims is None:
        return shape
    sizes = op.partial_value("fft_length")
    lengths: list[Size] = [None] * axes if sizes is None else sizes.reshape(-1).tolist()
    if is_forward:
        lengths[-1] = lengths[-1] // 2 + 1 if lengths[-1] else None
    return shape[:-axes].concatenate(lengths)


SHAPES: Final[dict[str, ShapeFunction]] = {
    f"{name}{suffix}": partial(transformed, axes=axes, is_forward=name == "RFFT")
    for name in ("RFFT", "IRFFT")
    for axes, suffix in ((1, ""), (2, "2D"), (3, "3D"))
}
