"""Gradients of elementwise functions of two tensors, and of matrix products.

Semantics: tensorflow/python/ops/math_grad.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.ops import array, math
from graphmill.spi import gradient
from graphmill.spi.gradients import GradientTable
from graphmill_plugins.gradients._support import as_dense, conj, const, shaped_as

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi.gradients import ForwardOp, Gradient
    from graphmill.spi.graphs import Tensor

    Parts = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]

table = GradientTable()


def _power(x: Tensor, y: Tensor, dy: Tensor) -> tuple[Tensor, Tensor]:
    z = math.pow(x, y)
    if x.dtype.base_dtype.is_complex:
        is_safe = math.not_equal(x, array.zeros_like(x))
    else:
        is_safe = x > 0
    log = math.select_v2(
        is_safe,
        math.log(math.select_v2(is_safe, x, array.ones_like(x))),
        array.zeros_like(x),
    )
    return dy * y * math.pow(x, y - 1), dy * z * log


def _atan2(y: Tensor, x: Tensor, dy: Tensor) -> tuple[Tensor, Tensor]:
    scale = dy / (math.square(x) + math.square(y))
    return x * scale, -y * scale


def _squared_difference(x: Tensor, y: Tensor, dy: Tensor) -> tuple[Tensor, Tensor]:
    scaled = dy * 2 * (x - y)
    return scaled, -scaled


def _select_larger(is_first: Callable[[Any, Any], Tensor]) -> Parts:
    def parts(x: Tensor, y: Tensor, dy: Tensor) -> tuple[Tensor, Tensor]:
        first, zeros = is_first(x, y), const(dy, 0)
        return math.select_v2(first, dy, zeros), math.select_v2(first, zeros, dy)

    return parts


_PARTS: dict[tuple[str, ...], Parts] = {
    ("AddV2", "Add"): lambda _x, _y, dy: (dy, dy),
    ("Sub",): lambda _x, _y, dy: (dy, -dy),
    ("Mul",): lambda x, y, dy: (dy * y, x * dy),
    ("Div", "RealDiv"): lambda x, y, dy: (dy / y, dy * ((-x / y) / y)),
    ("DivNoNan",): lambda x, y, dy: (
        math.div_no_nan(dy, y),
        dy * math.div_no_nan(math.div_no_nan(-x, y), y),
    ),
    ("Pow",): _power,
    ("Atan2",): _atan2,
    ("Maximum",): _select_larger(math.greater_equal),
    ("Minimum",): _select_larger(math.less_equal),
    ("FloorMod",): lambda x, y, dy: (dy, -dy * math.floor_div(x, y)),
    ("TruncateMod", "Mod"): lambda x, y, dy: (
        dy,
        -dy * math.cast(math.cast(x / y, DstT="int64"), DstT=y.dtype.base_dtype),
    ),
}
"""The gradients of both inputs, in the shape of the output."""

_UNCONJUGATED: dict[tuple[str, ...], Parts] = {
    ("SquaredDifference",): _squared_difference,
    ("MulNoNan",): lambda x, y, dy: (math.mul_no_nan(dy, y), math.mul_no_nan(x, dy)),
    ("Xlogy",): lambda x, y, dy: (
        dy * math.xlogy(_nonzero(x), y),
        dy * math.xdivy(x, y),
    ),
    ("Xlog1py",): lambda x, y, dy: (
        dy * math.xlog1py(_nonzero(x), y),
        dy * math.xdivy(x, y + 1),
    ),
    ("Xdivy",): lambda x, y, dy: (
        dy * math.xdivy(_nonzero(x), y),
        dy * math.xdivy(-x, math.square(y)),
    ),
}
"""The same for ops whose complex inputs TensorFlow does not conjugate."""


def _nonzero(x: Tensor) -> Tensor:
    """Return 1 where x is not zero."""
    return math.cast(math.not_equal(x, const(x, 0)), DstT=x.dtype.base_dtype)


def _broadcast(
    parts: Parts, *, is_conjugated: bool = True
) -> Callable[[ForwardOp, Gradient], Sequence[Tensor]]:
    def build(op: ForwardOp, dy: Gradient) -> Sequence[Tensor]:
        x, y = op.inputs
        values = (conj(x), conj(y)) if is_conjugated else (x, y)
        gx, gy = parts(*values, as_dense(dy))
        return shaped_as(op, (x, gx), (y, gy))

    return build


for _names, _function in _PARTS.items():
    table.add(*_names, function=_broadcast(_function))
for _names, _function in _UNCONJUGATED.items():
    table.add(*_names, function=_broadcast(_function, is_conjugated=False))


@gradient("AddN", slices=True)
def add_n(op: ForwardOp, dy: Gradient) -> list[Gradient]:
    """Return the gradient for each input."""
    return [dy] * len(op.inputs)


@gradient("AccumulateNV2", slices=True)
def accumulate_n(op: ForwardOp, dy: Gradient) -> list[Gradient]:
    """Return the gradient for each input."""
    return [dy] * len(op.inputs)


@gradient("Select")
def select(op: ForwardOp, dy: Gradient) -> list[Tensor | None]:
    """Pass each element's gradient to the input it was selected from."""
    condition, dense_dy = op.inputs[0], as_dense(dy)
    zeros = array.zeros_like(dense_dy)
    return [None, math.select(condition, dense_dy, zeros), math.select(condition, zeros, dense_dy)]


@gradient("SelectV2")
def select_v2(op: ForwardOp, dy: Gradient) -> list[Tensor | None]:
    """Pass each element's gradient to the input it was selected from."""
    condition, x, y = op.inputs
    dense_dy = as_dense(dy)
    zeros = const(dense_dy, 0)
    parts = [
        math.select_v2(condition, dense_dy, zeros),
        math.select_v2(condition, zeros, dense_dy),
    ]
    out = op.shape(op.outputs[0])
    gradients: list[Tensor | None] = [None]
    for tensor, part in zip((x, y), parts, strict=True):
        shape = op.shape(tensor)
        axes = array.broadcast_gradient_args(shape, out).r0
        gradients.append(array.reshape(math.sum(part, axes), shape))
    return gradients


@gradient("ClipByValue")
def clip_by_value(op: ForwardOp, dy: Tensor) -> list[Tensor]:
    """Pass the gradient to the value where it is within the bounds, else to the bound."""
    x, low, high = op.inputs
    zeros = array.zeros_like(dy)
    is_low, is_high = x < low, x > high
    is_clipped = math.logical_or(is_low, is_high)
    gradients = [math.select_v2(is_clipped, zeros, dy)]
    for bound, hit in ((low, is_low), (high, is_high)):
        shape = op.shape(bound)
        axes = array.broadcast_gradient_args(op.shape(x), shape).r1
        gradients.append(array.reshape(math.sum(math.select_v2(hit, dy, zeros), axes), shape))
    return gradients


def _product(
    op: ForwardOp, dy: Tensor, multiply: Callable[[Tensor, Tensor, bool, bool], Tensor], flags: str
) -> tuple[Tensor, Tensor]:
    """Return the gradients of both factors; `flags` names the attrs that transpose them."""
    first, second = flags.split()
    is_a, is_b = op.get_attr(first), op.get_attr(second)
    a, b = (conj(tensor) if first == "transpose_a" else tensor for tensor in op.inputs[:2])
    if not is_a and not is_b:
        return multiply(dy, b, False, True), multiply(a, dy, True, False)
    if not is_a:
        return multiply(dy, b, False, False), multiply(dy, a, True, False)
    if not is_b:
        return multiply(b, dy, False, True), multiply(a, dy, False, False)
    return multiply(b, dy, True, True), multiply(dy, a, True, True)


@gradient("MatMul")
def mat_mul(op: ForwardOp, dy: Tensor) -> Sequence[Tensor]:
    """Multiply by the other factor."""

    def multiply(a: Tensor, b: Tensor, is_a: bool, is_b: bool) -> Tensor:
        return math.mat_mul(a, b, transpose_a=is_a, transpose_b=is_b)

    return list(_product(op, dy, multiply, "transpose_a transpose_b"))


def _batched(a: Tensor, b: Tensor, is_a: bool, is_b: bool) -> Tensor:
    return math.batch_mat_mul_v2(a, b, adj_x=is_a, adj_y=is_b)


@gradient("BatchMatMul")
def batch_mat_mul(op: ForwardOp, dy: Tensor) -> Sequence[Tensor]:
    """Multiply by the other factor."""
    return list(_product(op, dy, _batched, "adj_x adj_y"))


@gradient("BatchMatMulV2", "BatchMatMulV3")
def batch_mat_mul_v2(op: ForwardOp, dy: Tensor) -> Sequence[Tensor]:
    """Multiply by the other factor; sum over broadcast dimensions."""
    gradients = _product(op, dy, _batched, "adj_x adj_y")
    shapes = [op.shape(tensor) for tensor in op.inputs]
    axes = array.broadcast_gradient_args(*(shape[:-2] for shape in shapes))
    return [
        array.reshape(math.sum(value, along), shape)
        for value, along, shape in zip(gradients, axes, shapes, strict=True)
    ]


@gradient("Igamma")
def igamma(op: ForwardOp, dy: Tensor) -> Sequence[Tensor]:
    """Differentiate the lower incomplete gamma function."""
    a, x = op.inputs
    by_x = math.exp(-x + (a - 1) * math.log(x) - math.lgamma(a))
    return shaped_as(op, (a, dy * math.igamma_grad_a(a, x)), (x, dy * by_x))


@gradient("Igammac")
def igammac(op: ForwardOp, dy: Tensor) -> Sequence[Tensor]:
    """Differentiate the upper incomplete gamma function."""
    return [-part for part in igamma(op, dy)]


@gradient("Betainc")
def betainc(op: ForwardOp, dy: Tensor) -> Sequence[Tensor | None]:
    """Differentiate with respect to x only."""
    a, b, x = op.inputs
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    by_x = math.exp(math.xlog1py(b - 1, -x) + math.xlogy(a - 1, x) - log_beta)
    return [None, None, shaped_as(op, (a, by_x * dy), (x, by_x * dy))[1]]


@gradient("Zeta")
def zeta(op: ForwardOp, dy: Tensor) -> Sequence[Tensor | None]:
    """Differentiate with respect to q only."""
    x, q = op.inputs
    by_q = dy * -x * math.zeta(x + 1, q)
    return [None, shaped_as(op, (x, by_q), (q, by_q))[1]]


@gradient("Polygamma")
def polygamma(op: ForwardOp, dy: Tensor) -> Sequence[Tensor | None]:
    """Differentiate with respect to x only."""
    n, x = op.inputs
    by_x = dy * math.polygamma(n + 1, x)
    return [None, shaped_as(op, (n, by_x), (x, by_x))[1]]


@gradient("Cross")
def cross(op: ForwardOp, dy: Tensor) -> Sequence[Tensor]:
    """Return the cross products with the other vector."""
    u, v = op.inputs
    return [math.cross(v, dy), math.cross(dy, u)]
