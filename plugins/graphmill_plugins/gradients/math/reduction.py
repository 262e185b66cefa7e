"""Gradients of reductions and cumulative ops.

Semantics: tensorflow/python/ops/math_grad.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.ops import array, math
from graphmill.spi import gradient
from graphmill_plugins.gradients._support import as_dense

if TYPE_CHECKING:
    from graphmill.spi.gradients import ForwardOp
    from graphmill.spi.graphs import Tensor


def _kept_shape(op: ForwardOp) -> Tensor:
    """Return the shape that the output has with `keep_dims`."""
    shape, axes = op.shape(op.inputs[0]), op.inputs[1]
    rank = array.size(shape)
    axes = math.cast(array.reshape(axes, [-1]), DstT="int32")
    axes = math.floor_mod(axes + rank, math.maximum(rank, 1))  # avoids modulo 0 for a scalar
    ones = array.fill(array.shape(axes), op.graph.constant(1, "int32"))
    return array.tensor_scatter_update(shape, array.expand_dims(axes, 1), ones)


def _spread(op: ForwardOp, dy: Tensor) -> Tensor:
    """Repeat a gradient along the axes that were reduced."""
    return array.broadcast_to(array.reshape(dy, _kept_shape(op)), op.shape(op.inputs[0]))


@gradient("Sum")
def sum_(op: ForwardOp, dy: Tensor) -> list[Tensor | None]:
    """Broadcast along the reduced axes."""
    return [_spread(op, as_dense(dy)), None]


@gradient("Mean")
def mean(op: ForwardOp, dy: Tensor) -> list[Tensor | None]:
    """Broadcast along the reduced axes, divided by the number of elements."""
    spread = _spread(op, as_dense(dy))
    sizes = [math.prod(op.shape(t), 0) for t in (op.inputs[0], op.outputs[0])]
    count = math.floor_div(sizes[0], math.maximum(sizes[1], 1))
    return [spread / math.cast(count, DstT=spread.dtype.base_dtype), None]


@gradient("Max", "Min")
def extreme(op: ForwardOp, dy: Tensor) -> list[Tensor | None]:
    """Divide the gradient among the elements that equal the extreme."""
    x, kept_shape = op.inputs[0], _kept_shape(op)
    y = array.reshape(op.outputs[0], kept_shape)
    is_hit = math.cast(math.equal(y, x), DstT=dy.dtype.base_dtype)
    count = array.reshape(math.sum(is_hit, op.inputs[1]), kept_shape)
    return [is_hit / count * array.reshape(dy, kept_shape), None]


@gradient("Prod")
def prod(op: ForwardOp, dy: Tensor) -> list[Tensor | None]:
    """Multiply by the product of the other elements, correct for zeros too."""
    x = op.inputs[0]
    shape = op.shape(x)
    rank = array.size(shape)
    axes = math.cast(array.reshape(op.inputs[1], [-1]), DstT="int32")
    axes = math.floor_mod(axes + rank, math.maximum(rank, 1))
    others = array.list_diff(math.range(0, rank, 1), axes).out
    order = array.concat_v2([axes, others], 0)
    count = math.prod(array.gather_v2(shape, axes, 0), 0)
    rest = math.prod(array.gather_v2(shape, others, 0), 0)
    moved = array.transpose(x, order)
    flat = array.reshape(moved, array.pack([count, rest]))
    left = math.cumprod(flat, 0, exclusive=True)
    right = math.cumprod(flat, 0, exclusive=True, reverse=True)
    if x.dtype.base_dtype.is_complex:
        left, right = math.conj(left), math.conj(right)
    back = array.reshape(left * right, array.shape(moved))
    return [_spread(op, dy) * array.transpose(back, array.invert_permutation(order)), None]


@gradient("EuclideanNorm")
def euclidean_norm(op: ForwardOp, dy: Tensor) -> list[Tensor | None]:
    """Return dy x / |x|."""
    kept_shape = _kept_shape(op)
    norm = array.reshape(op.outputs[0], kept_shape)
    return [op.inputs[0] / norm * array.reshape(dy, kept_shape), None]


@gradient("Cumsum")
def cumsum(op: ForwardOp, dy: Tensor) -> list[Tensor | None]:
    """Sum in the other direction."""
    options = {"exclusive": op.get_attr("exclusive"), "reverse": not op.get_attr("reverse")}
    return [math.cumsum(dy, op.inputs[1], **options), None]


@gradient("Cumprod")
def cumprod(op: ForwardOp, dy: Tensor) -> list[Tensor | None]:
    """Sum over the products that contain an element; zeros give NaN, as in TensorFlow."""
    x, axis = op.inputs
    options = {"exclusive": op.get_attr("exclusive"), "reverse": op.get_attr("reverse")}
    product = math.cumprod(x, axis, **options)
    options["reverse"] = not options["reverse"]
    return [math.div_no_nan(math.cumsum(product * dy, axis, **options), x), None]


@gradient("All", "Any")
def none(op: ForwardOp, dy: Tensor) -> list[None]:
    """Return None, because booleans have no derivative."""
    del dy
    return [None] * len(op.inputs)
