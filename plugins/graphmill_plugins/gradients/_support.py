"""Helpers of gradient functions: reduce broadcasts, conjugates, small arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.ops import array, math
from graphmill.spi.gradients import IndexedSlices, dense

if TYPE_CHECKING:
    from graphmill.spi.gradients import ForwardOp, Gradient
    from graphmill.spi.graphs import Tensor


def conj(tensor: Tensor) -> Tensor:
    """Return the complex conjugate; real tensors unchanged."""
    return math.conj(tensor) if tensor.dtype.base_dtype.is_complex else tensor


def shaped_as(op: ForwardOp, *pairs: tuple[Tensor, Tensor]) -> list[Tensor]:
    """Reduce the gradients of an op's two inputs to their shapes before broadcasting.

    Args:
        op: the op.
        pairs: each of its two broadcast inputs, with the gradient in the shape of the output.
    """
    (x, gx), (y, gy) = pairs
    shapes = op.shape(x), op.shape(y)
    axes = array.broadcast_gradient_args(*shapes)
    return [
        array.reshape(math.sum(value, along), shape)
        for value, along, shape in zip((gx, gy), axes, shapes, strict=True)
    ]


def const(like: Tensor, value: Any) -> Tensor:
    """Return a constant with the type of the tensor `like`."""
    constant: Tensor = like.graph.constant(value, like.dtype.base_dtype)
    return constant


def as_dense(value: Any) -> Tensor:
    """Return a gradient as a tensor."""
    return dense(value)


def scattered(op: ForwardOp, dy: Any, **options: Any) -> Gradient:
    """Scatter the gradient of a `GatherNd` into zeros; return slices if it gathered rows.

    Args:
        op: the op, whose inputs are a tensor or variable, and the indices.
        dy: the gradient of the gathered elements.
        options: attrs for `ScatterNd`.
    """
    source, indices = op.inputs
    values = dense(dy)
    shape = math.cast(op.shape(source), DstT=indices.dtype.base_dtype)
    if indices.shape.rank == 2 and indices.shape[-1] == 1:
        return IndexedSlices(values, array.squeeze(indices, squeeze_dims=[-1]), shape)
    return array.scatter_nd(indices, values, shape, **options)


__all__ = ["IndexedSlices", "as_dense", "conj", "const", "scattered", "shaped_as"]
