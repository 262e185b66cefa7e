"""SymbolicGradient: the gradient of a function, by its registered gradient or by JAX.

Semantics: `SymbolicGradientOp` in tensorflow/core/kernels/function_ops.cc. A function with a
gradient in the graph's library calls that. For any other the body is traced with its JAX kernels
and differentiated in reverse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill.graph.algorithms import topological_order
from graphmill.runtime.kernel import OpKernelConstruction, bind, kernel
from graphmill_plugins._jax import jax_module

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.graph.function_body import FunctionBody
    from graphmill.graph.node import Node
    from graphmill.ops.attr_types import FuncAttr
    from graphmill.plugin.host import Host
    from graphmill.runtime.op_kernel_context import OpKernelContext
    from graphmill.typing import Value


@kernel("SymbolicGradient", async_=True)
def symbolic_gradient(
    ctx: OpKernelContext, inputs: list[Value], f: FuncAttr, done: Callable[..., None]
) -> None:
    """Return the gradients of `f`'s inputs, given its inputs and its outputs' gradients."""
    runtime = ctx.functions
    gradient = runtime.library.gradients.get(f.name)
    if gradient is not None:
        handle = ctx.state.get("gradient")
        if handle is None:
            handle = ctx.state["gradient"] = runtime.instantiate(gradient, f.attrs)
        runtime.run_async(handle, inputs, ctx, done)
        return
    body = runtime.instantiate(f.name, f.attrs).body
    done(_vjp(body, inputs, runtime.host))


def _vjp(body: FunctionBody, inputs: Sequence[Value], host: Host) -> list[Value]:
    count = len(body.arg_types)
    if len(inputs) != count + len(body.ret_types):
        raise InvalidArgumentError(
            f"SymbolicGradient of '{body.name}' takes its {count} inputs and the gradients of its "
            f"{len(body.ret_types)} outputs, {len(inputs)} given"
        )
    evaluate = _evaluator(body, host)
    jax = jax_module()
    args, gradients = inputs[:count], inputs[count:]
    smooth = [index for index, dtype in enumerate(body.arg_types) if _is_smooth(dtype)]

    def of_smooth(*values: Any) -> list[Any]:
        full = list(args)
        for index, value in zip(smooth, values, strict=True):
            full[index] = value
        return [
            r for r, dtype in zip(evaluate(full), body.ret_types, strict=True) if _is_smooth(dtype)
        ]

    with jax.enable_x64(True):
        _, pull = jax.vjp(of_smooth, *(args[index] for index in smooth))
        # JAX multiplies by the derivative, TensorFlow by its conjugate.
        given = [
            _conjugate(g)
            for g, dtype in zip(gradients, body.ret_types, strict=True)
            if _is_smooth(dtype)
        ]
        found = dict(zip(smooth, map(_conjugate, pull(given)), strict=True))
    # What has no gradient (an integer, say) gets zeros, as TensorFlow gives.
    return [found.get(index, np.zeros_like(arg)) for index, arg in enumerate(args)]


def _conjugate(value: Any) -> Any:
    return np.conj(value) if np.iscomplexobj(value) else np.asarray(value)


def _is_smooth(dtype: Any) -> bool:
    return bool(dtype.is_floating or dtype.is_complex)


def _evaluator(body: FunctionBody, host: Host) -> Callable[[Sequence[Any]], list[Any]]:
    """Return the function of the arguments that the body computes, over JAX arrays."""
    order = topological_order(body.graph)
    computes = {
        node: _jax_kernel(node, host) for node in order if node.op not in ("_Arg", "_Retval")
    }

    def evaluate(args: Sequence[Any]) -> list[Any]:
        values: dict[tuple[Node, int], Any] = {}
        results: list[Any] = [None] * len(body.ret_types)
        for node in order:
            taken = [values[edge.src, edge.src_output] for edge in node.in_edges]
            if node.op == "_Arg":
                values[node, 0] = args[node.attrs["index"]]
            elif node.op == "_Retval":
                results[node.attrs["index"]] = taken[0]
            else:
                outputs = computes[node](*taken)
                if node.num_outputs == 1:
                    outputs = (outputs,)
                for index in range(node.num_outputs):
                    values[node, index] = outputs[index]
        return results

    return evaluate


def _jax_kernel(node: Node, host: Host) -> Callable[..., Any]:
    choice = host.kernels.find(node.op_def, node.attrs, "XLA_CPU", ("jax",))
    if not choice.definition.is_traceable:
        raise UnimplementedError(
            f"the gradient of a function through op {node.op} (node '{node.name}') needs a "
            "gradient function in the graph's library: the op cannot be traced",
            node=node.name,
            op=node.op,
        )
    namespace = jax_module().numpy
    construction = OpKernelConstruction(node.name, node.op_def, node.attrs, None, namespace)
    return bind(choice.definition, construction, choice.owner).compute
