"""What gradient functions have in common: broadcasting undone, conjugates, small arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.backprop.indexed_slices import IndexedSlices, dense
from graphmill.ops import array, math

if TYPE_CHECKING:
    from graphmill.backprop.forward_op import ForwardOp
    from graphmill.graph.tensor import Tensor


def conj(tensor: Tensor) -> Tensor:
    """Return the complex conjugate; a real tensor as it is."""
    return math.conj(tensor) if tensor.dtype.base_dtype.is_complex else tensor


def shaped_as(op: ForwardOp, *pairs: tuple[Tensor, Tensor]) -> list[Tensor]:
    """Undo the broadcasting of an op's two inputs.

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
    """Return a number of the type of a tensor."""
    made: Tensor = like.graph.constant(value, like.dtype.base_dtype)
    return made


def as_dense(value: Any) -> Tensor:
    """Return a gradient as a tensor."""
    return dense(value)


__all__ = ["IndexedSlices", "as_dense", "conj", "const", "shaped_as"]
