"""Export a part of a session's graph as a SavedModel with its variables and tables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import proto
from graphmill.errors import UnimplementedError
from graphmill.export.constant_handles import free_name
from graphmill.export.filled_tables import fill_table
from graphmill.export.state_values import variable_name
from graphmill.graph.builder import Graph
from graphmill.graph.dependencies import group
from graphmill.graph.node_roles import is_argument, is_argument_or_result, is_result
from graphmill.graph.tensor import Tensor
from graphmill.graph.variable import Variable
from graphmill.ops import array, state
from graphmill.ops.attrs.attr_types import TensorAttr
from graphmill.ops.definition.frozen_forms import TABLES
from graphmill.saved.saved_model_writer import build_signature_def, save
from graphmill.session.session import Session

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from graphmill.export.export_graph import ExportGraph
    from graphmill.graph.node import Node
    from graphmill.plugin.host import Host

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_./-]")


class SavedModelExport:
    """A graph with one signature, ready to be saved with its variables.

    Attributes:
        graph: the graph.
        signature: its signature, `serving_default` in the model.
    """

    def __init__(self, exported: ExportGraph) -> None:
        """Prepare a graph.

        Args:
            exported: the graph.

        Raises:
            UnimplementedError: tables have no contents; the message lists all of them.
        """
        tables = [node for node in exported.body.graph.nodes if node.op in TABLES]
        _check_contents(tables, exported)
        self._host: Host = exported.host
        self._values = exported.variables
        self._names = [port.name for port in exported.inputs], exported.outputs
        self.graph = Graph(exported.host.ops)
        copies = _copy(exported, self.graph)
        _read_constants(self.graph)
        self.signature = _signature(exported, self.graph, copies)
        fills = [
            fill_table(self.graph, exported.host.ops, copies[node], exported.tables[node])
            for node in tables
        ]
        with self.graph.as_default():
            self._init = group(*fills, name="fill_tables") if fills else None
        self._add_variables({copies[node]: name for node, name in exported.variable_nodes.items()})

    def __repr__(self) -> str:
        inputs, outputs = ", ".join(self._names[0]), ", ".join(self._names[1])
        return f"<SavedModelExport of {len(self._values)} variables: {inputs} -> {outputs}>"

    def save(self, folder: str | os.PathLike[str]) -> list[str]:
        """Write the SavedModel, and return its folder in a list.

        Args:
            folder: the folder, which must not exist.

        Raises:
            AlreadyExistsError: the folder exists.
            OpError: a file cannot be written; nothing remains.
        """
        with Session(graph=self.graph, host=self._host) as session:
            for variable in self.graph.variables:
                value: np.ndarray[Any, Any] = self._values[variable.variable_name]
                session.run([], {variable.initial_value: value}, targets=[variable.initializer])
            return [save(session, folder, self.signature, main_op=self._init)]

    def _add_variables(self, nodes: Mapping[Node, str]) -> None:
        """Declare the variables; their initial values are fed."""
        declared: set[str] = set()
        for node, name in nodes.items():
            if name not in declared:
                declared.add(name)
                self.graph.variables.append(_variable(self.graph, Tensor(node, 0), name))


def to_saved_model(graph: ExportGraph) -> SavedModelExport:
    """Return a graph as a SavedModel (the exporter `saved_model`)."""
    return SavedModelExport(graph)


def _check_contents(tables: list[Node], exported: ExportGraph) -> None:
    missing = [node for node in tables if node not in exported.tables]
    if missing:
        listed = "\n".join(f"  {node.name} ({node.op})" for node in missing)
        raise UnimplementedError(
            f"a SavedModel cannot hold {len(missing)} tables, which are not initialized; run "
            f"their initializers before the export:\n{listed}"
        )


def _copy(exported: ExportGraph, graph: Graph) -> dict[Node, Node]:
    """Copy the nodes into a graph, in which placeholders are the arguments."""
    source = exported.body.graph
    graph.library = source.library.copy()
    graph.versions = source.versions
    copies = graph.copy_nodes(n for n in source.nodes if not is_argument_or_result(n))
    for node in filter(is_argument, source.nodes):
        port = exported.inputs[node.attrs["index"]]
        name = free_name(graph, _NOT_IN_NAMES.sub("_", port.name.removesuffix(":0")))
        sizes = None if port.shape is None else [None if s < 0 else s for s in port.shape]
        copies[node] = graph.placeholder(port.dtype, sizes, name=name).op
    for node in source.nodes:
        if is_argument_or_result(node):
            continue
        copy = copies[node]
        copy.assigned_device = ""
        for position, edge in enumerate(node.in_edges):
            graph.add_edge(copies[edge.src], edge.src_output, copy, position)
        control = [src for src in node.control_inputs if src in copies]
        graph.add_control_edges([copies[src] for src in control], copy)
    return copies


def _read_constants(graph: Graph) -> None:
    """Read constants that are still in the file of the model, which may be closed before saving."""
    for node in graph.nodes:
        for name, value in node.attrs.items():
            if isinstance(value, TensorAttr):
                node.attrs = {**node.attrs, name: TensorAttr(value.numpy(), value.dtype)}
    large = graph.library.large_tensors
    large.update({key: np.asarray(value) for key, value in large.items()})


def _signature(exported: ExportGraph, graph: Graph, copies: Mapping[Node, Node]) -> Any:
    nodes = exported.body.graph.nodes
    placeholders = {n.attrs["index"]: copies[n] for n in nodes if is_argument(n)}
    inputs = {
        port.name.removesuffix(":0"): Tensor(placeholders[index], 0)
        for index, port in enumerate(exported.inputs)
    }
    results = {node.attrs["index"]: node.sources[0] for node in nodes if is_result(node)}
    outputs: dict[str, Tensor] = {}
    for index, name in enumerate(exported.outputs):
        node, output = results[index]
        outputs[name.removesuffix(":0")] = graph.get_tensor_by_name(f"{copies[node].name}:{output}")
    return build_signature_def(inputs, outputs)


def _variable(graph: Graph, handle: Tensor, name: str) -> Variable:
    """Return a variable of the graph whose initial value is fed."""
    node = handle.op
    dtype, shape = node.attrs["dtype"], node.attrs["shape"]
    sizes = None if shape is None else [None if size < 0 else size for size in shape]
    with graph.as_default(), graph.name_scope(f"{_NOT_IN_NAMES.sub('_', name)}/"):
        initial = graph.placeholder(dtype, sizes, name="initial_value")
        if handle.dtype.is_ref:
            assigned = state.assign(handle, initial, name="Assign").op
            read = array.identity(handle, name="read")
        else:
            assigned = state.assign_variable_op(handle, initial, name="Assign")
            read = state.read_variable_op(handle, dtype=dtype, name="Read/ReadVariableOp")
    definition = proto.VariableDef(
        variable_name=handle.name,
        initial_value_name=initial.name,
        initializer_name=assigned.name,
        snapshot_name=read.name,
        is_resource=not handle.dtype.is_ref,
        trainable=True,
    )
    variable = Variable.from_proto(definition, graph)
    variable.variable_name = variable_name(node)
    return variable
