"""`_AccidentalHits`, the op that marks sampled candidates that are true classes."""

from __future__ import annotations

from typing import Final

from graphmill import dtypes
from graphmill.spi import ArgDef, AttrDef, OpDef

ACCIDENTAL_HITS: Final = OpDef(
    name="_AccidentalHits",
    input_args=(
        ArgDef("true_classes", dtypes.int64),
        ArgDef("sampled_candidates", dtypes.int64),
        ArgDef(name="output_shape", type_attr="Tshape"),
    ),
    output_args=(ArgDef("output", dtypes.float32),),
    attrs=(AttrDef(name="num_true", type="int"), AttrDef(name="Tshape", type="type")),
    family="nn",
)
"""Returns for each example and candidate the lowest float if the candidate is one of the example's
true classes, else 0. A larger `output_shape` is filled with zeros."""
