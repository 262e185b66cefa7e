"""Shapes of ops of tensor lists.

Semantics: tensorflow/core/ops/list_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill.ops.inference.tensor_shape import SCALAR, TensorShape
from graphmill.ops.shapes.shared import common

if TYPE_CHECKING:
    from graphmill.ops.inference.shape_inference import ShapeContext, ShapeFunction

_LISTS = """
    EmptyTensorList TensorListConcatLists TensorListFromTensor TensorListLength TensorListPushBack
    TensorListReserve TensorListResize TensorListScatter TensorListScatterIntoExistingList
    TensorListSetItem TensorListSplit
"""


def popped(op: ShapeContext) -> list[TensorShape]:
    """Return the shapes of `TensorListPopBack`."""
    return [SCALAR, op.value_as_shape("element_shape")]


def stacked(op: ShapeContext) -> Any:
    """Return the shape of `TensorListStack`."""
    count = op.get_attr("num_elements")
    rows = TensorShape((None if count < 0 else count,))
    return rows.concatenate(op.value_as_shape("element_shape"))


def gathered(op: ShapeContext) -> Any:
    """Return the shape of `TensorListGather`."""
    return op.shape("indices").concatenate(op.value_as_shape("element_shape"))


def scattered(op: ShapeContext) -> TensorShape:
    """Return the shape of `TensorListScatterV2`, after a check of the shape of its elements."""
    op.value_as_shape("element_shape")
    return SCALAR


SHAPES: Final[dict[str, ShapeFunction]] = common.table(
    (_LISTS, common.fixed()),
    ("TensorListGather", gathered),
    ("TensorListGetItem", common.shape_input("element_shape")),
    ("TensorListPopBack", popped),
    ("TensorListScatterV2", scattered),
    ("TensorListStack", stacked),
)
