"""The op definitions that core itself needs, whatever a registry holds."""

from __future__ import annotations

from typing import Final

from graphmill.ops.op_def import OpDef

NO_OP: Final = OpDef(name="NoOp", family="control_flow")
"""What `_SOURCE` and `_SINK` are."""
