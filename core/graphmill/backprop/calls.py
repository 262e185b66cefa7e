"""Gradients of function calls: calls of the functions' gradients.

The gradient of a function recomputes its body for the values that it needs, as `SymbolicGradient`
does. So a body with ops that return other values the second time (random numbers) has no gradient.

Semantics of the ops: tensorflow/core/ops/functional_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.backprop.control_flow_analysis import is_trainable
from graphmill.backprop.function_gradient import FunctionGradient
from graphmill.backprop.indexed_slices import dense
from graphmill.backprop.while_calls import while_gradient
from graphmill.graph.functions.function_calls import calls_of
from graphmill.ops import functional
from graphmill.ops.attrs.attr_types import FuncAttr
from graphmill.ops.definition.effects import effects_of
from graphmill.ops.definition.op_traits import CallKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.backprop.forward_op import ForwardOp
    from graphmill.backprop.indexed_slices import Gradient
    from graphmill.graph.functions.function_calls import CalledFunction
    from graphmill.graph.node import Node
    from graphmill.graph.tensor import Tensor


def is_call(node: Node) -> bool:
    """Return whether a node's gradient is a call of the gradients of its functions.

    This does not hold for an op with effects of its own (`RemoteCall`).
    """
    return _kind_of(node, calls_of(node)) is not None and not effects_of(node.op_def)


def call_gradient(
    op: ForwardOp, grads: Sequence[Gradient | None], required: Sequence[bool]
) -> Sequence[Any]:
    """Return the gradients of the inputs of a call, conditional or loop over functions.

    Raises:
        UnimplementedError: a body has ops that must not be recomputed.
    """
    called = calls_of(op.node)
    dense_grads = [None if value is None else dense(value) for value in grads]
    kind = _kind_of(op.node, called)
    if kind is CallKind.LOOP_BODY:
        return while_gradient(op, dense_grads, required)
    skipped = called[0].call.first_input
    output_grads = _complete(op, dense_grads)
    gradient = FunctionGradient.build(op, [one.function for one in called], required[skipped:])
    inputs = [*op.inputs[skipped:], *output_grads]
    functions = [FuncAttr(name, {}) for name in gradient.names]
    if kind is CallKind.ONCE:
        outputs = functional.stateful_partitioned_call(inputs, Tout=gradient.types, f=functions[0])
    elif _chooses_by_index(op.node):
        outputs = functional.case(op.inputs[0], inputs, Tout=gradient.types, branches=functions)
    else:
        then_branch, else_branch = functions
        outputs = functional.if_(
            op.inputs[0],
            inputs,
            Tout=gradient.types,
            then_branch=then_branch,
            else_branch=else_branch,
        )
    return [None] * skipped + gradient.spread(outputs)


def _kind_of(node: Node, called: Sequence[CalledFunction]) -> CallKind | None:
    """Return how the functions are called; None if gradients cannot flow through such calls."""
    kinds = {one.kind for one in called}
    if kinds == {CallKind.ONCE} and len(called) == 1:
        return CallKind.ONCE
    if kinds == {CallKind.BRANCH}:
        return CallKind.BRANCH
    takes_all = not any(one.call.first_input for one in called)
    return CallKind.LOOP_BODY if node.op_def.is_while and takes_all else None


def _chooses_by_index(node: Node) -> bool:
    return node.op_def.attr(node.op_def.calls[0].attr).type == "list(func)"


def _complete(op: ForwardOp, grads: Sequence[Tensor | None]) -> list[Tensor]:
    """Return the gradients of the trainable outputs, with zeros for missing ones."""
    return [
        op.zeros(output) if value is None else value
        for output, value in zip(op.outputs, grads, strict=True)
        if is_trainable(output.dtype) and output.dtype.base_dtype.name != "resource"
    ]
