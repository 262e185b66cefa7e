"""An op that TensorFlow does not have."""

from __future__ import annotations

from graphmill import dtypes
from graphmill.ops.definition.op_def import ArgDef, AttrDef, OpDef

MUL_ADD_3 = OpDef(
    "Downstream>MulAdd3",
    input_args=(
        ArgDef("x", type_attr="T"),
        ArgDef("y", type_attr="T"),
        ArgDef("z", type_attr="T"),
    ),
    output_args=(ArgDef("result", type_attr="T"),),
    attrs=(
        AttrDef("T", "type", allowed=(dtypes.float32, dtypes.float64)),
        AttrDef("scale", "float", default=1.0),
    ),
)
