"""Shapes of ops that parse.

Semantics: tensorflow/core/ops/parsing_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.ops.shapes.shared import common

if TYPE_CHECKING:
    from graphmill.ops.inference.shape_inference import ShapeContext, ShapeFunction
    from graphmill.ops.inference.tensor_shape import TensorShape


def with_unknown_axis(op: ShapeContext) -> TensorShape:
    """Return the shape of the input with a last axis of unknown size."""
    return op.inputs[0].concatenate((None,))


SHAPES: Final[dict[str, ShapeFunction]] = common.table(
    ("DecodeRaw", with_unknown_axis),
    ("StringToNumber", common.unchanged),
)
