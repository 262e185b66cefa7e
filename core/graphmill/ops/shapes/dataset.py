"""Shapes of the elements of datasets: those that the node declares.

Semantics: tensorflow/core/ops/dataset_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import InvalidArgumentError
from graphmill.ops.inference.tensor_shape import TensorShape
from graphmill.ops.shapes.shared import common

if TYPE_CHECKING:
    from graphmill.ops.inference.shape_inference import ShapeContext, ShapeFunction

_ELEMENTS = """
    DatasetToSingleElement IteratorGetNext IteratorGetNextSync MultiDeviceIteratorGetNextFromShard
    ReduceDataset
"""
_HANDLES = "AnonymousIteratorV3 Iterator IteratorV2 OneShotIterator"


def declared(op: ShapeContext) -> Any:
    """Return the shapes of the attr `output_shapes`.

    Raises:
        InvalidArgumentError: it has another length than `output_types`.
    """
    shapes = [TensorShape(shape) for shape in op.get_attr("output_shapes")]
    if len(shapes) != op.num_outputs:
        raise InvalidArgumentError(
            "`output_shapes` must be the same length as `output_types` "
            f"({len(shapes)} vs. {op.num_outputs})"
        )
    return shapes[0] if op.num_outputs == 1 else shapes


SHAPES: Final[dict[str, ShapeFunction]] = common.table(
    (_ELEMENTS, declared), (_HANDLES, common.scalars)
)
