"""SpaceToBatch, BatchToSpace, SpaceToDepth and DepthToSpace kernels.

Semantics: tensorflow/core/kernels/spacetobatch_op.cc, batchtospace_op.cc, depthtospace_op.cc,
spacetodepth_op.cc.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import shape_text, to_ints
from graphmill_plugins.kernels.array.pad import checked_paddings, pad_constant

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value


def _checked_block(x: Value, block_shape: Value) -> tuple[int, ...]:
    """Return the block's sizes.

    Raises:
        InvalidArgumentError: the input has too few dimensions for the block, or a size is below 1.
    """
    block = to_ints(block_shape)
    if block_shape.ndim != 1 or x.ndim < 1 + len(block):
        raise InvalidArgumentError(
            f"input rank should be >= {1 + len(block)} for block_shape {list(block)}, "
            f"got shape {shape_text(x.shape)}"
        )
    if any(size < 1 for size in block):
        raise InvalidArgumentError(f"All values in block_shape must be positive, got {list(block)}")
    return block


@kernel("SpaceToBatchND", static=("block_shape", "paddings"))
def space_to_batch_nd(xp: ArrayNamespace, x: Value, block_shape: Value, paddings: Value) -> Value:
    """Pad, split spatial dimensions into blocks, and move the block offsets to the batch."""
    return _space_to_batch(xp, x, _checked_block(x, block_shape), paddings)


@kernel("SpaceToBatch", static=("paddings",))
def space_to_batch(xp: ArrayNamespace, x: Value, paddings: Value, *, block_size: int) -> Value:
    """Like SpaceToBatchND for square blocks of images."""
    return _space_to_batch(xp, x, _checked_image(x, block_size), paddings)


def _checked_image(x: Value, block_size: int) -> tuple[int, int]:
    if x.ndim != 4:
        raise InvalidArgumentError(f"input rank should be 4, got shape {shape_text(x.shape)}")
    return block_size, block_size


def _space_to_batch(xp: ArrayNamespace, x: Value, block: tuple[int, ...], paddings: Value) -> Value:
    count = len(block)
    pairs = checked_paddings(paddings, count)
    padding = [[0, 0], *pairs, *([[0, 0]] * (x.ndim - 1 - count))]
    padded = pad_constant(xp, x, padding, x.dtype.type(0))
    batch, space, rest = padded.shape[0], padded.shape[1 : 1 + count], padded.shape[1 + count :]
    for axis, (size, step) in enumerate(zip(space, block, strict=True)):
        if size % step:
            raise InvalidArgumentError(
                f"padded_shape[{axis}]={size} is not divisible by block_shape[{axis}]={step}"
            )
    cells = [size // step for size, step in zip(space, block, strict=True)]
    split = [size for pair in zip(cells, block, strict=True) for size in pair]
    parts = padded.reshape((batch, *split, *rest))
    order = [2 + 2 * i for i in range(count)] + [0] + [1 + 2 * i for i in range(count)]
    order += range(1 + 2 * count, parts.ndim)
    return parts.transpose(order).reshape((batch * math.prod(block), *cells, *rest))


@kernel("BatchToSpaceND", static=("block_shape", "crops"))
def batch_to_space_nd(_xp: ArrayNamespace, x: Value, block_shape: Value, crops: Value) -> Value:
    """Undo SpaceToBatchND: move blocks out of the batch, then crop."""
    return _batch_to_space(x, _checked_block(x, block_shape), crops)


@kernel("BatchToSpace", static=("crops",))
def batch_to_space(_xp: ArrayNamespace, x: Value, crops: Value, *, block_size: int) -> Value:
    """Like BatchToSpaceND for square blocks of images."""
    return _batch_to_space(x, _checked_image(x, block_size), crops)


def _batch_to_space(x: Value, block: tuple[int, ...], crops: Value) -> Value:
    count, block_size = len(block), math.prod(block)
    pairs = checked_paddings(crops, count)
    if x.shape[0] % block_size:
        raise InvalidArgumentError(
            f"Input batch dimension ({x.shape[0]}) is not divisible by product of block sizes "
            f"({block_size})"
        )
    batch, space, rest = x.shape[0] // block_size, x.shape[1 : 1 + count], x.shape[1 + count :]
    parts = x.reshape((*block, batch, *space, *rest))
    order = [count]
    for axis in range(count):
        order += [count + 1 + axis, axis]
    order += range(1 + 2 * count, parts.ndim)
    full = [size * step for size, step in zip(space, block, strict=True)]
    whole = parts.transpose(order).reshape((batch, *full, *rest))
    for axis, (size, pair) in enumerate(zip(full, pairs, strict=True)):
        if sum(pair) > size:
            raise InvalidArgumentError(
                f"cropped_shape[{axis}]={size - sum(pair)} must be non-negative"
            )
    inner = [slice(start, size - end) for size, (start, end) in zip(full, pairs, strict=True)]
    return whole[(slice(None), *inner)]


@kernel("SpaceToDepth", make=True)
def space_to_depth(
    _xp: ArrayNamespace, block_size: int, data_format: str
) -> Callable[[Value], Value]:
    """Move square blocks of an image to its depth."""
    _check_format("SpaceToDepth", data_format)
    step = block_size

    def move(x: Value) -> Value:
        _checked_image(x, step)
        height, width = x.shape[2:] if data_format == "NCHW" else x.shape[1:3]
        if height % step or width % step:
            raise InvalidArgumentError(
                f"Image width and height ({width}, {height}) should be divisible by block_size: "
                f"{step}"
            )
        if data_format == "NCHW":
            batch, depth = x.shape[:2]
            parts = x.reshape((batch, depth, height // step, step, width // step, step))
            moved = parts.transpose((0, 3, 5, 1, 2, 4))
            return moved.reshape((batch, step * step * depth, height // step, width // step))
        batch, depth = x.shape[0], x.shape[3]
        parts = x.reshape((batch, height // step, step, width // step, step, depth))
        moved = parts.transpose((0, 1, 3, 2, 4, 5))
        return moved.reshape((batch, height // step, width // step, step * step * depth))

    return move


@kernel("DepthToSpace", make=True)
def depth_to_space(
    _xp: ArrayNamespace, block_size: int, data_format: str
) -> Callable[[Value], Value]:
    """Move the depth of an image to square blocks."""
    _check_format("DepthToSpace", data_format)
    step = block_size

    def move(x: Value) -> Value:
        _checked_image(x, step)
        depth = x.shape[1] if data_format == "NCHW" else x.shape[3]
        if depth % (step * step):
            raise InvalidArgumentError(
                f"Input depth dimension {depth} should be divisible by: {step * step}"
            )
        new_depth = depth // (step * step)
        if data_format == "NCHW":
            batch, _, height, width = x.shape
            parts = x.reshape((batch, step, step, new_depth, height, width))
            moved = parts.transpose((0, 3, 4, 1, 5, 2))
            return moved.reshape((batch, new_depth, height * step, width * step))
        batch, height, width, _ = x.shape
        parts = x.reshape((batch, height, width, step, step, new_depth))
        moved = parts.transpose((0, 1, 3, 2, 4, 5))
        return moved.reshape((batch, height * step, width * step, new_depth))

    return move


def _check_format(op: str, data_format: str) -> None:
    if data_format not in ("NHWC", "NCHW"):
        raise UnimplementedError(
            f"{op} with data_format {data_format}: the vectorized layout exists for quantized GPU "
            "graphs only; convert the graph to NHWC or NCHW"
        )
