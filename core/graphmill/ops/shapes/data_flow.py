"""Shapes of ops of queues, accumulators, stacks, barriers, staging areas and readers' records.

Semantics: tensorflow/core/ops/data_flow_ops.cc. An op that reads from such a resource does not know
the shapes of the tensors that it returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.ops.inference.tensor_shape import UNKNOWN_SHAPE, TensorShape
from graphmill.ops.shapes.shared import common

if TYPE_CHECKING:
    from graphmill.ops.inference.shape_inference import ShapeContext, ShapeFunction

_HANDLES: Final = """
    Barrier ConditionalAccumulator FIFOQueue FakeQueue PaddingFIFOQueue PriorityQueue
    RandomShuffleQueue ResourceConditionalAccumulator SparseConditionalAccumulator Stack StackV2
"""
_SCALARS: Final = """
    AccumulatorNumAccumulated BarrierIncompleteSize BarrierReadySize FIFOQueueV2 MapIncompleteSize
    MapSize OrderedMapIncompleteSize OrderedMapSize PaddingFIFOQueueV2 PriorityQueueV2 QueueIsClosed
    QueueIsClosedV2 QueueSize QueueSizeV2 RandomShuffleQueueV2 ResourceAccumulatorNumAccumulated
    StageSize
"""


def partitioned(op: ShapeContext) -> list[TensorShape]:
    """Return the shapes of `DynamicPartition`: any number of elements of the data."""
    partitions = op.shape("partitions")
    shape = UNKNOWN_SHAPE
    if partitions.dims is not None:
        shape = TensorShape((None,)) + common.after_prefix(op.shape("data"), partitions)
    return [shape] * op.num_outputs


def stitched(op: ShapeContext) -> TensorShape:
    """Return the shape of `DynamicStitch`: the largest index determines the first size."""
    element, pairs = UNKNOWN_SHAPE, zip(op.shapes("indices"), op.shapes("data"), strict=True)
    for indices, data in pairs:
        if indices.rank is not None:
            element = element.merge_with(common.after_prefix(data, indices))
    return TensorShape((None,)) + element


def taken_rows(op: ShapeContext) -> list[TensorShape]:
    """Return unknown shapes for `SparseAccumulatorTakeGradient`: only the accumulator has them."""
    del op
    return [UNKNOWN_SHAPE] * 3


SHAPES: Final[dict[str, ShapeFunction]] = common.table(
    (_HANDLES, common.fixed(2)),
    (_SCALARS, common.scalars),
    ("DynamicPartition", partitioned),
    ("DynamicStitch ParallelDynamicStitch", stitched),
    ("SparseAccumulatorTakeGradient", taken_rows),
    ("StackPush StackPushV2", common.like_input(1)),
)
