"""Create lowerings of ops on tensor arrays, lists and stacks from functions of the state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.spi import Lowering, LoweringTable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from graphmill.spi import Node
    from graphmill_plugins.jit.lowerings.tensor_array import TracedOp
    from graphmill_plugins.jit.tracing.node_trace import NodeTrace


def structure_lowerings(
    functions: Mapping[str, TracedOp],
    static: Mapping[str, tuple[str, ...]] | None = None,
    counting: Collection[TracedOp] = (),
    element_type: str = "",
) -> LoweringTable:
    """Return the lowerings of ops on tensor arrays, lists or stacks.

    Args:
        functions: by op, a function of state (which it changes), inputs and canonical attrs that
            returns all outputs.
        static: by op, the inputs that determine a size, and so must be static.
        counting: the functions that return the number of elements.
        element_type: the attr with the dtype of the elements, for ops that have it.
    """
    static = static or {}

    def refuse(node: Node) -> str | None:
        dtype = node.attrs.get(element_type)
        if dtype is None or not np.dtype(dtype.as_numpy_dtype).hasobject:
            return None
        return f"its elements have dtype {dtype.name}"

    return LoweringTable(
        Lowering((op,), _lowering_of(function, counting), static=static.get(op, ()), refuse=refuse)
        for op, function in functions.items()
    )


def _lowering_of(function: TracedOp, counting: Collection[TracedOp]) -> Callable[..., Any]:
    def lower(trace: NodeTrace, *_: Any) -> Any:
        outputs = function(trace.state, trace.inputs, trace.attrs)
        if function in counting:
            trace.tracer.counts.note(trace.inputs[0], outputs[0], trace.state)
        return outputs[0] if len(outputs) == 1 else outputs

    return lower
