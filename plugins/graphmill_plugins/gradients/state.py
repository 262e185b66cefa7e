"""Gradients of variable reads.

Semantics: tensorflow/python/ops/resource_variable_ops.py, state_grad.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.ops import array
from graphmill.spi import gradient
from graphmill.spi.gradients import IndexedSlices, not_differentiable
from graphmill_plugins.gradients._support import as_dense, scattered

if TYPE_CHECKING:
    from graphmill.spi.gradients import ForwardOp, Gradient

none = not_differentiable(
    "VarHandleOp", "Variable", "VariableV2", "Assign", "AssignAdd", "AssignSub", "ScatterAdd",
    "ScatterSub", "ScatterMul", "ScatterDiv", "ScatterNdAdd", "ScatterNdSub", "ScatterNdUpdate",
    "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp", "TemporaryVariable",
    "VariableShape", "VarIsInitializedOp", "IsVariableInitialized", "CountUpTo",
)  # fmt: skip


@gradient("ReadVariableOp", slices=True)
def read_variable(_op: ForwardOp, dy: Gradient) -> Gradient:
    """Return the gradient unchanged as that of the handle."""
    return dy


@gradient("ResourceGather")
def resource_gather(op: ForwardOp, dy: Gradient) -> list[Any]:
    """Return the gradient as slices of the gathered rows."""
    shape = op.shape(op.inputs[0])
    indices = array.reshape(op.inputs[1], [-1])
    values = array.reshape(as_dense(dy), array.concat_v2([array.size(indices)[None], shape[1:]], 0))
    return [IndexedSlices(values, indices, shape), None]


@gradient("ResourceGatherNd")
def resource_gather_nd(op: ForwardOp, dy: Gradient) -> list[Any]:
    """Scatter the gradient into zeros."""
    return [scattered(op, dy), None]
