"""Op definitions that core itself needs, independent of any registry."""

from __future__ import annotations

from typing import Final

from graphmill.ops.definition.op_def import ArgDef, AttrDef, OpDef
from graphmill.ops.definition.op_traits import OpTraits

NO_OP: Final = OpDef(name="NoOp", family="control_flow")
"""The op of `_SOURCE` and `_SINK`."""


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
"""Copies from device memory to host memory, within a device's partition."""
COPY_TO_DEVICE: Final = _copy_op("_CopyToDevice")
"""Copies from host memory to device memory, within a device's partition."""
