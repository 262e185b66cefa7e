"""`Assert`: add a node that fails the step if a condition is false.

Semantics: tf.compat.v1.Assert, tensorflow/python/ops/control_flow_assert.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill import dtypes
from graphmill.graph.control_flow.cond import cond
from graphmill.graph.infer_graph import infer_graph
from graphmill.ops import control_flow
from graphmill.ops.inputs import values
from graphmill.ops.inputs.default_graph import SymbolicTensor
from graphmill.ops.logging import assert_ as add_assert

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.dtypes import DType
    from graphmill.graph.node import Node

_ON_HOST = (dtypes.string, dtypes.int32)


def Assert(  # noqa: N802 - TensorFlow's name; `assert` is Python's
    condition: Any, data: Sequence[Any], summarize: int | None = None, name: str | None = None
) -> Node:
    """Add a node that fails the step unless a condition is true.

    It runs only if another node depends on it (`with graph.control_dependencies([node])`) or it is
    fetched. Data of types other than string and int32 are read only if the condition is false.

    Args:
        condition: a scalar bool tensor.
        data: tensors and values that the error message shows.
        summarize: how many elements of each the message shows, by default 3; all if negative.
        name: name of the scope of the added nodes, by default `Assert`.

    Raises:
        InvalidArgumentError: the condition is not bool, or the data are not a list of tensors.
    """
    graph = infer_graph(condition, list(data))
    with graph.as_default(), graph.name_scope(name or "Assert"):

        def check() -> Node:
            shown = 3 if summarize is None else summarize
            return add_assert(condition, list(data), summarize=shown, name="Assert")

        if all(_dtype(item) in _ON_HOST for item in data):
            return check()
        condition = graph.convert(condition, dtypes.bool, "Condition")
        guarded: Node = cond(condition, control_flow.no_op, check, name="AssertGuard").op
        return guarded


def _dtype(value: Any) -> DType:
    if isinstance(value, SymbolicTensor):
        return value.dtype.base_dtype
    return values.natural_dtype(value)
