"""Compute each node of a step again in float64, to find those that lose precision.

Each node gets the inputs that it had in the step, converted to float64, so the result shows the
error that the node itself adds, not what it inherits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.comparison.differences import Tolerance, difference_of
from graphmill.comparison.report import Comparison
from graphmill.comparison.step_tensors import step_tensors
from graphmill.errors import OpError
from graphmill.graph.builder import Graph
from graphmill.graph.node_roles import is_argument
from graphmill.ops.definition.effects import effects_of
from graphmill.proto import ConfigProto
from graphmill.session.session import Session
from graphmill.session.timeouts import timeout_options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphmill.comparison.differences import TensorDifference
    from graphmill.graph.node import Edge, Node
    from graphmill.plugin.host import Host

_NO_FLOATS = "its node computes no floating-point values"
_EFFECTS = "its node has effects or state"
_CALLS = "its node calls functions"
_INPUTS = "an input of its node could not be fetched"
_NARROW_TYPES = frozenset({dtypes.float32, dtypes.float16, dtypes.bfloat16})


def compare_with_float64(
    session: Session,
    fetches: Sequence[str],
    feeds: Mapping[str, Any] | None = None,
    *,
    tolerance: Tolerance | None = None,
    timeout: float | None = None,
) -> Comparison:
    """Run a step, and recompute each of its floating-point nodes in float64.

    Args:
        session: the session.
        fetches: names of tensors.
        feeds: values by tensor name.
        tolerance: which errors of a node are accepted; `Tolerance()` if not given.
        timeout: the seconds that the step may take; None for no limit.

    Returns:
        The error of each node, given its inputs; `outputs` is empty.

    Raises:
        NotFoundError: the graph has no such tensor.
        UnimplementedError: the session is on a server.
        OpError: the step failed.
    """
    accepted = tolerance or Tolerance()
    fed = dict(feeds or {})
    graph = session.step_graph(list(fetches), list(fed))
    tensors, skipped = step_tensors(graph)
    names = [tensor.name for tensor in tensors]
    results = session.run(names, fed, options=timeout_options(timeout))
    values = dict(zip(names, results, strict=True))
    float64 = _Float64(session.host, values, list(fed.values()))
    differences: list[TensorDifference] = []
    for tensor in tensors:
        name, _, output = tensor.name.rpartition(":")
        node = graph.node(name)
        reason = float64.why_not(node, int(output))
        try:
            result = None if reason else float64.outputs(node)[int(output)]
        except OpError as error:
            reason = f"its node cannot be computed in float64: {error.message}"
        if reason:
            skipped[tensor.name] = reason
            continue
        value = np.asarray(values[tensor.name])
        differences.append(
            difference_of(tensor.name, value, np.asarray(result, value.dtype), accepted, tensor.op)
        )
    return Comparison(
        (),
        tuple(difference for difference in differences if difference.max_ulps or difference.reason),
        len(differences),
        skipped,
        notes=("Each node was recomputed in float64 from its inputs in the step",),
    )


class _Float64:
    """Computes single nodes in float64.

    Args:
        host: where the kernels come from.
        values: the values of tensors in the step, by name.
        fed: the values of its feeds, in order.
    """

    def __init__(self, host: Host, values: Mapping[str, Any], fed: Sequence[Any]) -> None:
        self._host = host
        self._values = values
        self._fed = fed
        self._done: dict[Node, list[Any]] = {}
        self._config = ConfigProto()
        self._config.graphmill.jit = "off"

    def why_not(self, node: Node, output: int) -> str:
        """Return why an output of a node is not recomputed; "" if it is."""
        types = {dtype.base_dtype for dtype in (*node.input_types, node.output_types[output])}
        if not types & _NARROW_TYPES or node.output_types[output].base_dtype not in _NARROW_TYPES:
            return _NO_FLOATS
        if not node.in_edges or node.op_def.traits.forwards or node.op_def.traits.is_control_flow:
            return _NO_FLOATS
        if node.op_def.calls or node.op in node.graph.library:
            return _CALLS
        if effects_of(node.op_def):
            return _EFFECTS
        if any(self._value(edge) is None for edge in node.in_edges):
            return _INPUTS
        return ""

    def outputs(self, node: Node) -> list[Any]:
        """Return the outputs of a node, computed in float64.

        Raises:
            OpError: the op does not take float64, or its kernel failed.
        """
        if node not in self._done:
            self._done[node] = self._run(node)
        return self._done[node]

    def _run(self, node: Node) -> list[Any]:
        graph = Graph(self._host.ops)
        inputs, feeds = [], {}
        for edge in node.in_edges:
            dtype = _widened(node.input_types[edge.dst_input].base_dtype)
            tensor = graph.placeholder(dtype)
            value = np.asarray(self._value(edge))
            feeds[tensor] = value.astype(dtype.as_numpy_dtype) if dtype.is_floating else value
            inputs.append(tensor)
        attrs = {name: _widened_attr(value) for name, value in node.attrs.items()}
        copied = graph.create_op(node.op_def, inputs, attrs)
        with Session(graph=graph, config=self._config, host=self._host, trust=False) as session:
            results: list[Any] = session.run(graph.outputs_of(copied), feeds)
        return results

    def _value(self, edge: Edge) -> Any:
        """Return the value of an edge in the step; None if it is not known."""
        if is_argument(edge.src):
            return self._fed[edge.src.attrs["index"]]
        return self._values.get(f"{edge.src.name}:{edge.src_output}")


def _widened(dtype: dtypes.DType) -> dtypes.DType:
    return dtypes.float64 if dtype in _NARROW_TYPES else dtype


def _widened_attr(value: Any) -> Any:
    if isinstance(value, dtypes.DType):
        return _widened(value.base_dtype)
    if isinstance(value, (list, tuple)) and all(isinstance(item, dtypes.DType) for item in value):
        return [_widened(item.base_dtype) for item in value]
    return value
