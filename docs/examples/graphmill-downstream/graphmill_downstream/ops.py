"""The op, the shape of its output, and how its gradient is built from other ops."""

from __future__ import annotations

from graphmill.spi import ArgDef, AttrDef, OpDef, dtypes, gradient


def soft_shrink_shape(op):
    return op.shape("x")


SOFT_SHRINK = OpDef(
    "Downstream>SoftShrink",
    input_args=(ArgDef("x", type_attr="T"),),
    output_args=(ArgDef("y", type_attr="T"),),
    attrs=(
        AttrDef("T", "type", allowed=(dtypes.float32, dtypes.float64)),
        AttrDef("margin", "float", 0.5),
    ),
    shape_function=soft_shrink_shape,
)


@gradient("Downstream>SoftShrink")
def soft_shrink_gradient(op, dy):
    from graphmill.ops import math

    (x,) = op.inputs
    is_outside = math.greater(math.abs(x), op.get_attr("margin"))
    return dy * math.cast(is_outside, DstT=dy.dtype)
