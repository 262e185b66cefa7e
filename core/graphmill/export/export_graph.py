"""`ExportGraph`: the part of a session's graph that computes some outputs, with its variables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphmill.errors import FailedPreconditionError, InvalidArgumentError
from graphmill.export.constant_handles import ConstantHandles
from graphmill.export.state_values import table_contents, variable_name, variable_values
from graphmill.graph.functions.function_body import FunctionBody
from graphmill.lowering.prune import build_client_graph
from graphmill.ops.definition.frozen_forms import TABLES
from graphmill.ops.definition.op_traits import Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np

    from graphmill.dtypes import DType
    from graphmill.export.state_values import TableContents
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
        tables: the contents of the tables that nodes of `body.graph` make, if they have any.
    """

    body: FunctionBody
    inputs: tuple[ExportInput, ...]
    outputs: tuple[str, ...]
    variables: Mapping[str, np.ndarray[Any, Any]]
    variable_nodes: Mapping[Node, str]
    host: Host
    tables: Mapping[Node, TableContents] = field(default_factory=dict)

    def freeze(self) -> list[str]:
        """Replace the variables in `body.graph` and its functions by constants.

        Returns:
            Why nodes cannot be frozen, each with the name of the node; an empty list if all can.
        """
        rewrite = ConstantHandles(self.body.graph, self.host.ops)
        rewrite.replace({node: self.variables[name] for node, name in self.variable_nodes.items()})
        return rewrite.refusals


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
    variables = _values(session, nodes)
    body = FunctionBody("export", client.graph, client.feed_types, client.fetch_types, ())
    tables = [node for node in client.graph.nodes if node.op in TABLES]
    contents = table_contents(session, tables).values
    filled = {node: contents[node.name] for node in tables if node.name in contents}
    return ExportGraph(body, ports, tuple(outputs), variables, nodes, host, filled)


def _values(session: Session, nodes: Iterable[Node]) -> Mapping[str, np.ndarray[Any, Any]]:
    found = variable_values(session, nodes)
    if found.missing:
        listed = "\n".join(f"  {name}: {reason}" for name, reason in found.missing.items())
        raise FailedPreconditionError(
            f"{len(found.missing)} variables have no value; run their initializers, or restore a "
            f"checkpoint, before the export:\n{listed}"
        )
    return found.values


def _input(name: str, tensor: Tensor) -> ExportInput:
    rank = tensor.shape.rank
    shape = None if rank is None else tuple(-1 if size is None else size for size in tensor.shape)
    return ExportInput(name, tensor.name, tensor.dtype.base_dtype, shape)
