"""Shapes with elements added before and after each axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.errors import InvalidArgumentError
from graphmill.ops.inference.tensor_shape import UNKNOWN_SHAPE, TensorShape
from graphmill.ops.shapes.shared import common

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.ops.inference.shape_inference import ShapeContext
    from graphmill.ops.inference.tensor_shape import Size


def with_paddings(op: ShapeContext, shape: TensorShape) -> TensorShape:
    """Return a shape after the input `paddings` of a node: a row of two counts for each axis.

    Raises:
        InvalidArgumentError: a count is negative, or there are rows for other axes.
    """
    pads = op.value("paddings")
    if pads is None:
        rank = shape.rank if shape.rank is not None else op.shape("paddings").with_rank(2)[0]
        return UNKNOWN_SHAPE if rank is None else TensorShape((None,) * rank)
    if (pads < 0).any():
        raise InvalidArgumentError(f"Paddings must be non-negative, got {pads.tolist()}")
    return TensorShape(map(with_pads, shape.with_rank(len(pads)), pads.tolist()))


def with_pads(size: Size, pads: Sequence[int]) -> Size:
    """Return a size after two counts of elements are added; None if it is unknown."""
    return common.sized(size, lambda n: n + pads[0] + pads[1])
