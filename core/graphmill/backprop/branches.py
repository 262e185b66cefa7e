"""Gradients of conditionals: that of `Merge` is a `Switch`, that of `Switch` a `Merge`.

Semantics: _MergeGrad and _SwitchGrad of tensorflow/python/ops/control_flow_grad.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.backprop.indexed_slices import dense
from graphmill.graph.node_roles import is_merge
from graphmill.graph.tensor import Tensor
from graphmill.ops import control_flow, math

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.backprop.forward_op import ForwardOp
    from graphmill.backprop.indexed_slices import Gradient


def branch_gradient(
    op: ForwardOp, grads: Sequence[Gradient | None], required: Sequence[bool]
) -> list[Tensor | None]:
    """Return the gradients of the inputs of a `Switch` or `Merge` of a conditional."""
    if is_merge(op.node):
        return _merge_gradient(op, grads)
    if not required[0]:
        return [None, None]
    return [_switch_gradient(op, grads), None]


def _merge_gradient(op: ForwardOp, grads: Sequence[Gradient | None]) -> list[Tensor | None]:
    grad = grads[0]
    if grad is None:
        return [None] * len(op.inputs)
    branches = [op.branches(tensor)[-1:] for tensor in op.inputs]
    if len(branches) != 2 or not all(branches) or branches[0][0][0] != branches[1][0][0]:
        return _gradient_of_any_merge(op, dense(grad))
    predicate = Tensor(*branches[0][0][0])
    parts = control_flow.switch(dense(grad), predicate)
    return [parts[branch[0][1]] for branch in branches]


def _gradient_of_any_merge(op: ForwardOp, grad: Tensor) -> list[Tensor | None]:
    """Return the gradients of inputs that are not the two branches of one conditional.

    Which of them was alive is known only when the graph runs: it is the second output.
    """
    taken = op.outputs[1]
    return [
        control_flow.switch(grad, math.equal(taken, index)).output_true
        for index in range(len(op.inputs))
    ]


def _switch_gradient(op: ForwardOp, grads: Sequence[Gradient | None]) -> Tensor:
    parts = {branch: dense(part) for branch, part in enumerate(grads) if part is not None}
    present = next(iter(parts.values()))
    for missing in {0, 1} - set(parts):
        zeros = op.zeros(op.inputs[0], present.dtype.base_dtype)
        parts[missing] = control_flow.switch(zeros, op.inputs[1])[missing]
    return control_flow.merge([parts[0], parts[1]]).output
