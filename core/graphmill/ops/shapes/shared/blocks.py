"""Shapes of ops that move blocks between the axes of space, batch and depth.

Semantics: tensorflow/core/ops/array_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.errors import InvalidArgumentError
from graphmill.ops.inference.output_bounds import OutputBound, bounded_by
from graphmill.ops.inference.tensor_shape import UNKNOWN_SHAPE, TensorShape
from graphmill.ops.shapes.shared import common

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.ops.inference.shape_inference import ShapeContext
    from graphmill.ops.inference.tensor_shape import Size


@bounded_by(OutputBound.INPUT)
def space_to_depth(op: ShapeContext) -> TensorShape:
    """Return the shape of `SpaceToDepth`, known if channels are last."""
    block = op.get_attr("block_size")
    if not _is_channels_last(op):
        return UNKNOWN_SHAPE
    n, height, width, depth = op.inputs[0].with_rank(4)
    deep = common.sized(depth, lambda size: size * block * block)
    return TensorShape((n, divided(height, block), divided(width, block), deep))


@bounded_by(OutputBound.INPUT)
def depth_to_space(op: ShapeContext) -> TensorShape:
    """Return the shape of `DepthToSpace`, known if channels are last."""
    block = op.get_attr("block_size")
    if not _is_channels_last(op):
        return UNKNOWN_SHAPE
    n, height, width, depth = op.inputs[0].with_rank(4)
    high, wide = (common.sized(size, lambda s: s * block) for size in (height, width))
    return TensorShape((n, high, wide, divided(depth, block * block)))


def _is_channels_last(op: ShapeContext) -> bool:
    """Return whether channels are last, after a check of the rank of the layout."""
    layout = op.get_attr("data_format")
    op.inputs[0].with_rank(5 if layout == b"NCHW_VECT_C" else 4)
    return bool(layout == b"NHWC")


def space_to_batch(op: ShapeContext) -> TensorShape:
    """Return the shape of `SpaceToBatch` and `SpaceToBatchND`."""
    shape, blocks, pads = op.inputs[0], _blocks(op), _amounts(op, "paddings")
    if shape.dims is None or blocks is None:
        return UNKNOWN_SHAPE
    shape.with_rank_at_least(len(blocks) + 1)
    inside = [
        divided(_changed(size, pad), block)
        for size, pad, block in zip(shape.dims[1:], _each(pads, blocks), blocks, strict=False)
    ]
    batch = common.product((shape.dims[0], *blocks))
    return TensorShape((batch, *inside, *shape.dims[len(blocks) + 1 :]))


def batch_to_space(op: ShapeContext) -> TensorShape:
    """Return the shape of `BatchToSpace` and `BatchToSpaceND`."""
    shape, blocks, crops = op.inputs[0], _blocks(op), _amounts(op, "crops")
    if shape.dims is None or blocks is None:
        return UNKNOWN_SHAPE
    shape.with_rank_at_least(len(blocks) + 1)
    inside = [
        _changed(common.product((size, block)), None if crop is None else -crop)
        for size, crop, block in zip(shape.dims[1:], _each(crops, blocks), blocks, strict=False)
    ]
    whole = common.product(blocks)
    batch = None if whole is None else divided(shape.dims[0], whole)
    return TensorShape((batch, *inside, *shape.dims[len(blocks) + 1 :]))


def divided(size: Size, by: Size) -> Size:
    """Return a size divided by another one, None if one is unknown.

    Raises:
        InvalidArgumentError: the quotient is not an integer.
    """
    if size is None or by is None:
        return None
    if size % by:
        raise InvalidArgumentError(f"Dimension size must be evenly divisible by {by} but is {size}")
    return size // by


def _changed(size: Size, change: int | None) -> Size:
    return None if change is None else common.sized(size, lambda old: old + change)


def _blocks(op: ShapeContext) -> Sequence[Size] | None:
    """Return the size of blocks along each axis; None if it is unknown along how many axes."""
    if "block_size" in op.attrs:
        return (op.get_attr("block_size"),) * 2
    count, blocks = op.shape("block_shape").with_rank(1)[0], common.integers(op, "block_shape")
    if blocks is None:
        return None if count is None else (None,) * count
    if any(block < 1 for block in blocks):
        raise InvalidArgumentError(f"block_shape must be positive, got {blocks}")
    return blocks


def _amounts(op: ShapeContext, name: str) -> list[int] | None:
    """Return how much is added or removed along each axis, None if it is not static."""
    pairs = op.value(name)
    if pairs is None:
        return None
    if (pairs < 0).any():
        raise InvalidArgumentError(f"{name} cannot be negative, got {pairs.tolist()}")
    return [int(before + after) for before, after in pairs.reshape(-1, 2)]


def _each(amounts: list[int] | None, blocks: Sequence[Size]) -> Sequence[int | None]:
    return [None] * len(blocks) if amounts is None else amounts
