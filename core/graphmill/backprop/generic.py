"""The gradient of an op without a gradient function: `SymbolicGradient` of a one-op function.

Its kernel differentiates the op's kernel with JAX, so the op must have a traceable kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.backprop.indexed_slices import dense
from graphmill.errors import OpError
from graphmill.graph.builder import Graph
from graphmill.graph.functions.function_def import function_def
from graphmill.ops import array, functional
from graphmill.ops.attrs.attr_types import FuncAttr
from graphmill.ops.definition.effects import effects_of
from graphmill.ops.definition.op_traits import CallKind
from graphmill.plugin.gradient_registry import NoGradientError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.backprop.forward_op import ForwardOp
    from graphmill.backprop.indexed_slices import Gradient
    from graphmill.graph.node import Node
    from graphmill.plugin.host import Host


def generic_gradient(
    op: ForwardOp, grads: Sequence[Gradient | None], required: Sequence[bool]
) -> list[Any]:
    """Return the gradients of an op's inputs by differentiating its kernel.

    Raises:
        NoGradientError: no kernel of the op can be traced, or the op has effects, which the
            gradient would repeat.
    """
    node = op.node
    reason = _why_untraceable(node, op.backward_pass.host)
    if reason:
        near = op.backward_pass.host.gradients.near(node.op)
        raise NoGradientError(
            f"No gradient defined for operation '{node.name}' (op type: {node.op}): no gradient "
            f"function is registered, and {reason}{near}; register one with "
            "graphmill_register_gradients, or stop the gradient with stop_gradients",
            node=node.name,
            op_type=node.op,
        )
    name = _function_of(op)
    output_grads = [
        array.zeros_like(output) if value is None else dense(value)
        for output, value in zip(op.outputs, grads, strict=True)
    ]
    outputs = functional.symbolic_gradient(
        [*op.inputs, *output_grads],
        Tout=[t.dtype.base_dtype for t in op.inputs],
        f=FuncAttr(name, {}),
    )
    return [value if use else None for value, use in zip(outputs, required, strict=True)]


def _why_untraceable(node: Node, host: Host) -> str:
    """Return why the kernel of a node cannot be differentiated; empty if it can."""
    if node.op_def.traits.calls_as(CallKind.GRADIENT):  # added here; JAX differentiates it again
        return ""
    none = "none of its kernels can be traced"
    if node.op not in host.ops or node.op_def.is_stateful:
        return none
    try:
        choice = host.kernels.find(node.op_def, node.attrs, "XLA_CPU", ("jax",))
    except OpError:
        return none
    if not choice.definition.is_traceable:
        return none
    effects = effects_of(node.op_def) | choice.definition.effects
    if not effects:
        return ""
    return f"it has effects, and its gradient would repeat them: {', '.join(sorted(effects))}"


def _function_of(op: ForwardOp) -> str:
    """Add a function that consists of the op to the graph's library; return its name."""
    body = Graph(op.graph.ops)
    args = [
        body.create_op("Placeholder", (), {"dtype": tensor.dtype.base_dtype})
        for tensor in op.inputs
    ]
    inputs = [body.outputs_of(arg)[0] for arg in args]
    attrs = {key: value for key, value in op.node.attrs.items() if not key.startswith("_")}
    node = body.create_op(op.node.op_def, inputs, attrs)
    name = f"__{op.type}_{len(op.graph.library)}"
    results = [(node, index) for index in range(node.num_outputs)]
    op.graph.library.add(function_def(name, body, args, results))
    return name
