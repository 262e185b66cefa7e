"""The device's own op: `relu(a @ b + bias)` in one go."""

from __future__ import annotations

from graphmill.spi import ArgDef, AttrDef, OpDef, dtypes
from graphmill_simnpu import FUSED_OP

MAT_MUL_BIAS_RELU = OpDef(
    FUSED_OP,
    input_args=tuple(ArgDef(name, type_attr="T") for name in ("a", "b", "bias")),
    output_args=(ArgDef("product", type_attr="T"),),
    attrs=(AttrDef("T", "type", allowed=(dtypes.float32, dtypes.float64)),),
)
