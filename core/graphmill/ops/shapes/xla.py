"""Shapes of ops for single XLA instructions.

Semantics: tensorflow/compiler/tf2xla/ops/xla_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.ops.shapes.linalg import einsum
from graphmill.ops.shapes.shared import common

if TYPE_CHECKING:
    from graphmill.ops.inference.shape_inference import ShapeFunction

SHAPES: Final[dict[str, ShapeFunction]] = common.table(("XlaEinsum", einsum))
