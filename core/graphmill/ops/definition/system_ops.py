"""The op definitions that core itself needs, independent of any registry."""

from __future__ import annotations

from typing import Final

from graphmill.ops.definition.op_def import ArgDef, AttrDef, OpDef
from graphmill.ops.definition.op_traits import OpTraits

NO_OP: Final = OpDef(name="NoOp", family="control_flow")
"""What `_SOURCE` and `_SINK` are."""


def _copy_op(name: str) -> OpDef:
    return OpDef(
        name=name,
        input_args=(ArgDef("input", type_attr="T"),),
        output_args=(ArgDef("output", type_attr="T"),),
        attrs=(AttrDef("T", "type"),),
        family="control_flow",
        traits=OpTraits(effects=frozenset(), forwards=True),
    )


COPY_TO_HOST: Final = _copy_op("_CopyToHost")
"""Within a device's partition: from the device's memory to the host's."""
COPY_TO_DEVICE: Final = _copy_op("_CopyToDevice")
"""Within a device's partition: from the host's memory to the device's."""
