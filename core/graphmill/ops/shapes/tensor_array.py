"""Shapes of ops of tensor arrays.

Semantics: tensorflow/core/ops/data_flow_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.ops.inference.tensor_shape import SCALAR, UNKNOWN_SHAPE, TensorShape
from graphmill.ops.shapes.shared import common

if TYPE_CHECKING:
    from graphmill.ops.inference.shape_inference import ShapeContext, ShapeFunction

_SCALARS = """
    TensorArrayScatterV2 TensorArrayScatterV3 TensorArraySizeV2 TensorArraySizeV3 TensorArraySplitV2
    TensorArraySplitV3 TensorArrayWriteV2 TensorArrayWriteV3
"""


def gathered(op: ShapeContext) -> TensorShape:
    """Return the shape of `TensorArrayGatherV3`: that of the elements, for each index."""
    return op.shape("indices").with_rank(1).concatenate(op.get_attr("element_shape"))


def concatenated(op: ShapeContext) -> list[TensorShape]:
    """Return the shapes of `TensorArrayConcatV3`: the elements, and their sizes."""
    del op
    return [UNKNOWN_SHAPE, TensorShape((None,))]


def handle_and_flow(op: ShapeContext) -> list[TensorShape]:
    """Return the shapes of `TensorArrayV3`; that of the handle is left unknown."""
    del op
    return [UNKNOWN_SHAPE, SCALAR]


SHAPES: Final[dict[str, ShapeFunction]] = common.table(
    (_SCALARS, common.fixed()),
    ("TensorArrayConcatV2 TensorArrayConcatV3", concatenated),
    ("TensorArrayGatherV2 TensorArrayGatherV3", gathered),
    ("TensorArrayGradV3 TensorArrayV3", handle_and_flow),
)
