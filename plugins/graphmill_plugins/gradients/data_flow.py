"""Gradients of partitions and stitches. Semantics: tensorflow/python/ops/data_flow_grad.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.ops import array, data_flow, math
from graphmill.spi import gradient
from graphmill.spi.gradients import not_differentiable
from graphmill_plugins.gradients._support import as_dense

if TYPE_CHECKING:
    from graphmill.spi.gradients import ForwardOp, Gradient

none = not_differentiable(
    "FIFOQueue", "FIFOQueueV2", "PaddingFIFOQueue", "PaddingFIFOQueueV2", "RandomShuffleQueue",
    "RandomShuffleQueueV2", "PriorityQueue", "PriorityQueueV2", "QueueEnqueue", "QueueEnqueueV2",
    "QueueEnqueueMany", "QueueEnqueueManyV2", "QueueDequeue", "QueueDequeueV2", "QueueDequeueMany",
    "QueueDequeueManyV2", "QueueDequeueUpTo", "QueueDequeueUpToV2", "QueueClose", "QueueCloseV2",
    "QueueSize", "QueueSizeV2", "Stack", "StackV2", "StackPush", "StackPushV2", "StackPop",
    "StackPopV2", "StackClose", "StackCloseV2", "GetSessionHandle", "GetSessionHandleV2",
    "GetSessionTensor", "DeleteSessionTensor", "Stage", "Unstage",
)  # fmt: skip


@gradient("DynamicPartition")
def dynamic_partition(op: ForwardOp, *dys: Gradient | None) -> list[Any]:
    """Stitch the partitions' gradients together."""
    data, partitions = op.inputs
    shape = op.shape(partitions)
    numbers = array.reshape(math.range(0, math.prod(shape, 0), 1), shape)
    count = op.get_attr("num_partitions")
    positions = data_flow.dynamic_partition(numbers, partitions, num_partitions=count)
    gradients = [
        op.zeros(output) if dy is None else as_dense(dy)
        for output, dy in zip(op.outputs, dys, strict=True)
    ]
    stitched = data_flow.parallel_dynamic_stitch(positions, gradients)
    return [array.reshape(stitched, op.shape(data)), None]


@gradient("DynamicStitch", "ParallelDynamicStitch")
def dynamic_stitch(op: ForwardOp, dy: Gradient) -> list[Any]:
    """Gather the gradient at the indices."""
    count = len(op.inputs) // 2
    dense_dy = as_dense(dy)
    return [None] * count + [array.gather_v2(dense_dy, index, 0) for index in op.inputs[:count]]
