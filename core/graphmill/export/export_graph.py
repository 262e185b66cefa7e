"""`ExportGraph`: the part of a session's graph that computes some outputs, with its variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.graph.functions.function_body import FunctionBody
from graphmill.lowering.prune import build_client_graph
from graphmill.ops import state
from graphmill.ops.definition.op_traits import Source

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.dtypes import DType
    from graphmill.graph.builder import Graph
    from graphmill.graph.node import Node
    from graphmill.graph.tensor import Tensor
    from graphmill.plugin.host import Host
    from graphmill.session.session import Session
    from graphmill.typing import Shape


@dataclass(frozen=True, slots=True)
class ExportInput:
    """An input: its name for callers, the tensor in the graph, its element type and shape."""

    name: str
    tensor: str
    dtype: DType
    shape: Shape


@dataclass(frozen=True, slots=True)
class ExportGraph:
    """A graph to convert.

    Attributes:
        body: has an `_Arg` for each input and a `_Retval` for each output; it may be changed.
        inputs: the inputs, in the order of the arguments.
        outputs: the names of the outputs, in the order of the results.
        variables: the value of each variable by its name.
        variable_nodes: the variable that each of these nodes of `body.graph` represents.
        host: where the graph's ops and kernels come from.
    """

    body: FunctionBody
    inputs: tuple[ExportInput, ...]
    outputs: tuple[str, ...]
    variables: Mapping[str, np.ndarray[Any, Any]]
    variable_nodes: Mapping[Node, str]
    host: Host


def export_graph(
    session: Session, inputs: Mapping[str, str], outputs: Mapping[str, str]
) -> ExportGraph:
    """Return the part of a session's graph that computes some tensors from others.

    Args:
        session: the session, whose variables have values.
        inputs: the tensors to feed (`x:0`), by the names that callers use.
        outputs: the tensors to compute, likewise.

    Raises:
        InvalidArgumentError: there are no outputs.
        NotFoundError: a tensor does not exist.
        FailedPreconditionError: a variable has no value.
    """
    if not outputs:
        raise InvalidArgumentError("an export needs at least one output")
    graph, host = session.graph, session.host
    client = build_client_graph(graph, host.ops, list(inputs.values()), list(outputs.values()), [])
    ports = tuple(_input(name, graph.get_tensor_by_name(tensor)) for name, tensor in inputs.items())
    nodes = {
        node: variable_name(node)
        for node in client.graph.nodes
        if node.op_def.traits.source is Source.VARIABLE
    }
    variables = _values(session, graph, nodes)
    body = FunctionBody("export", client.graph, client.feed_types, client.fetch_types, ())
    return ExportGraph(body, ports, tuple(outputs), variables, nodes, host)


def variable_name(node: Node) -> str:
    """Return the name of the variable that a node represents: its shared name, or the node's."""
    shared = node.attrs.get("shared_name") or b""
    return (shared.decode() if isinstance(shared, bytes) else shared) or node.name


def _values(
    session: Session, graph: Graph, nodes: Mapping[Node, str]
) -> dict[str, np.ndarray[Any, Any]]:
    """Read the variables; nodes that read resources are added to the session's graph."""
    reads: dict[str, Tensor] = {}
    for node, name in nodes.items():
        own = graph.get_tensor_by_name(f"{node.name}:0")
        if name not in reads:
            with graph.as_default(), graph.control_dependencies(None):
                is_ref = own.dtype.is_ref
                reads[name] = (
                    own if is_ref else state.read_variable_op(own, dtype=node.attrs["dtype"])
                )
    if not reads:
        return {}
    values = session.run(list(reads.values()))
    return {name: np.asarray(value) for name, value in zip(reads, values, strict=True)}


def _input(name: str, tensor: Tensor) -> ExportInput:
    rank = tensor.shape.rank
    shape = None if rank is None else tuple(-1 if size is None else size for size in tensor.shape)
    return ExportInput(name, tensor.name, tensor.dtype.base_dtype, shape)
