"""Lower gathers and scatters on variables: embeddings and their gradients.

If an index is out of range, the interpreter runs the step and raises. If the program has replaced
duplicate indices (`tracing.unique_lowering`), the replacements are out of range and are dropped.

Semantics: tensorflow/core/kernels/resource_variable_ops.cc, scatter_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.spi import Lowering, LoweringTable
from graphmill_plugins.jit.ir.errors import NotTraceable
from graphmill_plugins.jit.tracing.row_checks import require_rows_in_range, value_with_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphmill_plugins.jit.tracing.node_trace import NodeTrace


def _gather(trace: NodeTrace, handle: Any, indices: Any, batch_dims: int) -> Any:
    if batch_dims:
        raise NotTraceable("it has batch dimensions")
    unique_input = trace.tracer.rows.unique_input_of(trace.node)
    value = value_with_rows(handle, trace.state)
    require_rows_in_range(value, indices if unique_input is None else unique_input, trace.state)
    return trace.xp.take(value, indices, axis=0, mode="clip")


def _scatter(method: str) -> Callable[..., Any]:
    """Return the lowering of an op that updates rows by a method of `array.at[rows]`."""

    def lower(trace: NodeTrace, handle: Any, indices: Any, updates: Any) -> Any:
        unique_input = trace.tracer.rows.unique_input_of(trace.node)
        value = value_with_rows(handle, trace.state)
        require_rows_in_range(value, indices if unique_input is None else unique_input, trace.state)
        if np.shape(updates) not in ((), (*np.shape(indices), *value.shape[1:])):
            raise NotTraceable(
                f"updates of shape {np.shape(updates)} do not match indices of shape "
                f"{np.shape(indices)} and rows of shape {value.shape[1:]}"
            )
        rows = trace.xp.asarray(value).at[indices]
        trace.state[handle] = getattr(rows, method)(updates, mode="drop")
        return handle if trace.node.output_types else None

    return lower


_METHODS: Final[Mapping[str, str]] = {"Update": "set", "Add": "add", "Sub": "subtract"}

LOWERINGS: Final = LoweringTable(
    [
        Lowering(("ResourceGather",), _gather, distinct_rows=True),
        *(
            Lowering(
                (f"Scatter{name}", f"ResourceScatter{name}"), _scatter(method), distinct_rows=True
            )
            for name, method in _METHODS.items()
        ),
    ]
)
