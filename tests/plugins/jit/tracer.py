"""A small tracer for tests of traced control flow without clusters."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import graphmill
from graphmill.graph.algorithms import topological_order
from graphmill.graph.functions.function_body import instantiate_function
from graphmill.runtime.kernels.op_kernel import OpKernelConstruction, bind
from graphmill_plugins._jax import jax_module
from graphmill_plugins.jit.analysis.trip_count import pass_through, trip_count_of
from graphmill_plugins.jit.ir.errors import NotTraceable
from graphmill_plugins.jit.lowerings import stack, tensor_array, tensor_list
from graphmill_plugins.jit.tracing.conditionals import trace_cond
from graphmill_plugins.jit.tracing.loops import trace_while
from graphmill_plugins.jit.tracing.static_values import GUARD
from graphmill_plugins.jit.tracing.values import Absent

TRACED = {**tensor_array.TRACED, **stack.TRACED, **tensor_list.TRACED}


def compiled(function: Any, *args: Any) -> Any:
    """Return the result of a function under `jax.jit`, in 64-bit mode."""
    jax = jax_module()
    with jax.enable_x64(True):
        return jax.tree_util.tree_map(np.asarray, jax.jit(function)(*args))


def run(graph: Any, feeds: list[Any]) -> list[Any]:
    """Compile and run a client graph; return the values of its `_Retval`s."""
    jax = jax_module()

    def compute(args: list[Any]) -> Any:
        state = {GUARD: jax.numpy.asarray(True)}
        results, state = evaluate(graph, args, state)
        return results, state[GUARD]

    with jax.enable_x64(True):
        results, is_good = jax.jit(compute)([np.asarray(feed) for feed in feeds])
        assert bool(is_good)
        return [np.asarray(result) for result in results]


def evaluate(graph: Any, args: list[Any], state: Any) -> tuple[list[Any], Any]:
    """Evaluate a graph of `_Arg` and `_Retval`."""
    state = dict(state)
    values: dict[Any, Any] = {}
    results: dict[int, Any] = {}
    for node in topological_order(graph):
        inputs = [values[edge.src, edge.src_output] for edge in node.in_edges]
        if node.op == "_Retval":
            results[node.attrs["index"]] = inputs[0]
            continue
        outputs = (
            (args[node.attrs["index"]],)
            if node.op == "_Arg"
            else _outputs(node, inputs, state, graph.library)
        )
        values.update(((node, index), value) for index, value in enumerate(outputs))
    return [results[index] for index in sorted(results)], state


def _outputs(node: Any, inputs: list[Any], state: Any, library: Any) -> Any:
    if node.op in TRACED:
        return TRACED[node.op](state, inputs, node.attrs)
    if node.op == "FakeParam":
        return (Absent(),)
    if node.op == "Assert":
        state[GUARD] = state[GUARD] & inputs[0]
        return ()
    if node.op in ("NoOp", "ControlTrigger"):
        return ()
    if node.op == "Identity":
        return (inputs[0],)
    if node.op == "Const":
        return (node.attrs["value"].numpy(),)

    def function(name: str) -> Any:
        return instantiate_function(name, {}, library, graphmill.default_host().ops)

    if node.op.endswith("If"):
        names = node.attrs["else_branch"].name, node.attrs["then_branch"].name
        branches = [partial(evaluate, function(name).graph) for name in names]
        results, after = trace_cond(inputs[0], branches, inputs[1:], state)
        state.update(after)
        return results
    if node.op.endswith("While"):
        cond, body = (function(node.attrs[kind].name) for kind in ("cond", "body"))
        trips = trip_count_of(cond, body, inputs, lambda attr: function(attr.name))
        results, after = trace_while(
            partial(evaluate, cond.graph),
            partial(evaluate, body.graph),
            inputs,
            state,
            invariant=pass_through(body),
            trips=None if trips is None else trips.maximum,
        )
        state.update(after)
        return results
    return _computed(node, inputs)


def _computed(node: Any, inputs: list[Any]) -> Any:
    is_known = all(isinstance(value, (np.ndarray, np.generic)) for value in inputs)
    backend = "numpy" if is_known else "jax"
    xp = np if is_known else jax_module().numpy
    found = graphmill.default_host().kernels.try_find(node.op_def, node.attrs, "CPU", (backend,))
    if found is None or not found.definition.is_traceable:
        raise NotTraceable(f"{node.name} ({node.op})")
    construction = OpKernelConstruction(node.name, node.op_def, node.attrs, None, xp)
    result = bind(found.definition, construction, found.owner).compute(*inputs)
    return (result,) if len(node.output_types) == 1 else result
