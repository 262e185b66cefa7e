"""Add nodes that fill a table with the contents that it has in a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.export.constant_handles import free_name
from graphmill.ops.attrs.attr_types import TensorAttr
from graphmill.ops.definition.frozen_forms import TABLES

if TYPE_CHECKING:
    from graphmill.export.state_values import TableContents
    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.ops.definition.op_registry import OpRegistry


def fill_table(graph: Graph, ops: OpRegistry, table: Node, contents: TableContents) -> Node:
    """Add a node that fills a table, and make all readers of the table wait for it.

    A table that is filled again with the same contents stays as it is.

    Args:
        graph: the graph of the table, which is changed.
        ops: definitions of ops.
        table: the node that makes the table.
        contents: its keys and values.

    Returns:
        The node that fills it.
    """
    types = {"keys": table.attrs["key_dtype"], "values": table.attrs["value_dtype"]}
    constants = [
        _constant(graph, ops, f"{table.name}/{name}", value, types[name])
        for name, value in zip(contents._fields, contents, strict=True)
    ]
    op_def = ops.get(TABLES[table.op].fill)
    keys, values = op_def.input_args[1:]
    attrs = {keys.type_attr: types["keys"], values.type_attr: types["values"]}
    readers = [edge.dst for edge in table.out_edges]
    inputs = [(table, 0), *((node, 0) for node in constants)]
    name = free_name(graph, f"{table.name}/fill")
    complete = op_def.with_defaults(attrs)
    fill = graph.add_node(name, op_def, inputs, attrs=complete, device=table.device)
    for reader in readers:
        graph.add_control_edge(fill, reader)
    return fill


def _constant(graph: Graph, ops: OpRegistry, name: str, value: object, dtype: object) -> Node:
    attrs = {"dtype": dtype, "value": TensorAttr(value, dtype)}
    return graph.add_node(free_name(graph, name), ops.get("Const"), attrs=attrs)
