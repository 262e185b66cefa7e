"""Add the arguments and results of a body that the compiler builds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphmill.dtypes import DType
    from graphmill.spi import Graph, Node
    from graphmill.spi.graphs import OpRegistry


def add_argument(graph: Graph, ops: OpRegistry, name: str, index: int, dtype: DType) -> Node:
    """Add the argument at an index; the name must be free."""
    op_def = ops.get("_Arg")
    attrs = {"T": dtype, "index": index}
    return graph.add_node(name, op_def, attrs=op_def.with_defaults(attrs))


def add_result(
    graph: Graph, ops: OpRegistry, name: str, index: int, source: tuple[Node, int]
) -> Node:
    """Add the result at an index, which is an output of a node; the name must be free."""
    op_def = ops.get("_Retval")
    node, output = source
    attrs = {"T": node.output_types[output].base_dtype, "index": index}
    return graph.add_node(name, op_def, [source], attrs=op_def.with_defaults(attrs))
