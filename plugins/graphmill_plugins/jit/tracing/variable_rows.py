"""Reads and updates of rows of variables while they are traced: embeddings, and their gradients.

Semantics: tensorflow/core/kernels/resource_variable_ops.cc, scatter_op.cc. Rows that are not there
are noted in the state; the interpreter tells which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill_plugins._jax import jax_module
from graphmill_plugins.jit.errors import NotTraceable
from graphmill_plugins.jit.tracing.checks import CHECKS
from graphmill_plugins.jit.tracing.elements import GUARD
from graphmill_plugins.jit.tracing.traced_ops import ROW_UPDATES
from graphmill_plugins.jit.tracing.traced_variable import TracedVariable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphmill.graph.node import Node
    from graphmill_plugins.jit.tracing.values import State

    RowOp = Callable[[Node, list[Any], State, Any], tuple[Any, ...]]


def checked_rows(node: Node, handle: Any, indices: Any, state: State) -> Any:
    """Return the value of a variable; note whether it has all rows."""
    if not isinstance(handle, TracedVariable):
        raise NotTraceable("it reads no variable")
    held = state[handle]
    if not np.ndim(held):
        raise NotTraceable("the variable has no rows")
    numpy = jax_module().numpy
    state[GUARD] = CHECKS["Gather"](numpy, node, [held, indices], state[GUARD])
    return held


def _gather(node: Node, inputs: list[Any], state: State, wanted: Any) -> tuple[Any, ...]:
    handle, indices = inputs
    if node.attrs["batch_dims"]:
        raise NotTraceable("it has batch dimensions")
    held = checked_rows(node, handle, indices if wanted is None else wanted, state)
    return (jax_module().numpy.take(held, indices, axis=0, mode="clip"),)


def _scatter(node: Node, inputs: list[Any], state: State, wanted: Any) -> tuple[Any, ...]:
    handle, indices, updates = inputs
    held = checked_rows(node, handle, indices if wanted is None else wanted, state)
    if np.shape(updates) not in ((), (*np.shape(indices), *held.shape[1:])):
        raise NotTraceable(f"updates of shape {np.shape(updates)} do not fit the rows")
    spot = jax_module().numpy.asarray(held).at[indices]
    state[handle] = getattr(spot, ROW_UPDATES[node.op])(updates, mode="drop")
    return (handle,) if node.output_types else ()


ROW_OPS: Final[Mapping[str, RowOp]] = {
    "ResourceGather": _gather,
    **dict.fromkeys(ROW_UPDATES, _scatter),
}
"""By op: a function of node, inputs, state (which it changes) and the numbers of the rows that are
wanted, if `indices` has others too (`distinct.no_row`); gives all outputs."""
