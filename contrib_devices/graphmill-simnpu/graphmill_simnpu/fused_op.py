"""The device's fused op: `relu(a @ b + bias)`."""

from __future__ import annotations

from graphmill.spi import ArgDef, AttrDef, OpDef, ShapeContext, TensorShape, dtypes, errors
from graphmill_simnpu import FUSED_OP


def product_shape(op: ShapeContext) -> TensorShape:
    """Return the shape of the product; the bias has one element for each of its columns."""
    rows, inner = op.shape("a").with_rank(2)
    other, columns = op.shape("b").with_rank(2)
    if None not in (inner, other) and inner != other:
        raise errors.InvalidArgumentError(f"a has {inner} columns, b has {other} rows")
    return TensorShape([rows]).concatenate(op.shape("bias").merge_with([columns]))


MAT_MUL_BIAS_RELU = OpDef(
    FUSED_OP,
    input_args=tuple(ArgDef(name, type_attr="T") for name in ("a", "b", "bias")),
    output_args=(ArgDef("product", type_attr="T"),),
    attrs=(AttrDef("T", "type", allowed=(dtypes.float32, dtypes.float64)),),
    shape_function=product_shape,
)
