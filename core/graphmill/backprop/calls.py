"""The gradient of a call: another call, of the gradient of the function.

The gradient of a function runs its body again for the values that it needs, as `SymbolicGradient`
does. So a body whose ops give something else the second time (random numbers) has none.

Semantics of the ops: tensorflow/core/ops/functional_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.backprop.function_gradient import FunctionGradient, functions_of
from graphmill.backprop.indexed_slices import dense
from graphmill.backprop.structure import is_trainable
from graphmill.backprop.while_calls import while_gradient
from graphmill.ops import functional
from graphmill.ops.attr_types import FuncAttr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.backprop.forward_op import ForwardOp
    from graphmill.backprop.indexed_slices import Gradient
    from graphmill.graph.node import Node
    from graphmill.graph.tensor import Tensor

_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_CONDITIONALS = ("If", "StatelessIf", "Case", "StatelessCase")
_LOOPS = ("While", "StatelessWhile")


def is_call(node: Node) -> bool:
    """Return whether a node calls functions of the graph's library."""
    return node.op in (*_CALLS, *_CONDITIONALS, *_LOOPS) or node.op in node.graph.library


def call_gradient(
    op: ForwardOp, grads: Sequence[Gradient | None], wanted: Sequence[bool]
) -> Sequence[Any]:
    """Return the gradients of the inputs of a call, conditional or loop over functions.

    Raises:
        UnimplementedError: a body has ops that cannot be run again.
    """
    dense_grads = [None if value is None else dense(value) for value in grads]
    if op.type in _LOOPS:
        return while_gradient(op, dense_grads, wanted)
    skipped = 1 if op.type in _CONDITIONALS else 0
    functions = functions_of(op)
    args = op.inputs[skipped:]
    given = _complete(op, dense_grads)
    made = FunctionGradient.build(op, functions, wanted[skipped:])
    inputs = [*args, *given]
    if skipped == 0:
        found = functional.stateful_partitioned_call(
            inputs, Tout=made.types, f=FuncAttr(made.names[0], {})
        )
    else:
        branches = [FuncAttr(name, {}) for name in made.names]
        selector = op.inputs[0]
        if op.type.endswith("If"):
            found = functional.if_(
                selector, inputs, Tout=made.types, then_branch=branches[0], else_branch=branches[1]
            )
        else:
            found = functional.case(selector, inputs, Tout=made.types, branches=branches)
    return [None] * skipped + made.spread(found)


def _complete(op: ForwardOp, grads: Sequence[Tensor | None]) -> list[Tensor]:
    """Return the gradients of the trainable outputs, zeros for those that have none."""
    return [
        op.zeros(output) if value is None else value
        for output, value in zip(op.outputs, grads, strict=True)
        if is_trainable(output.dtype) and output.dtype.base_dtype.name != "resource"
    ]
