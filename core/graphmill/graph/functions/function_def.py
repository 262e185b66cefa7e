"""Convert a graph to a `FunctionDef` message, which `function_body.py` reads.

Semantics: `GraphToFunctionDef` in tensorflow/core/framework/graph_to_functiondef.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill import proto
from graphmill.graph.algorithms import ancestors
from graphmill.graph.formats.import_export import node_to_node_def

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node


def function_def(
    name: str, graph: Graph, args: Sequence[Node], results: Sequence[tuple[Node, int]]
) -> proto.FunctionDef:
    """Return the function that takes the place of some nodes and returns some outputs.

    Args:
        name: its name.
        graph: the graph.
        args: nodes of one output that stand for its arguments.
        results: the outputs that it returns.
    """
    function = proto.FunctionDef()
    function.signature.name = name
    places = {node: f"arg_{index}" for index, node in enumerate(args)}
    for node, place in places.items():
        function.signature.input_arg.add(name=place, type=node.output_types[0].enum)
    kept = ancestors([node for node, _ in results]) - set(args)
    for node in sorted(kept, key=lambda node: node.id):
        if node is graph.source:
            continue
        message = function.node_def.add()
        message.CopyFrom(node_to_node_def(node))
        del message.input[:]
        message.input.extend(_spelled(source, places) for source in node.inputs)
        message.input.extend(f"^{src.name}" for src in node.control_inputs if src in kept)
        function.signature.is_stateful |= node.op_def.is_stateful
    for index, source in enumerate(results):
        dtype = source[0].output_types[source[1]]
        function.signature.output_arg.add(name=f"result_{index}", type=dtype.base_dtype.enum)
        function.ret[f"result_{index}"] = _spelled(source, places)
    return function


def _spelled(source: tuple[Node, int], places: dict[Node, str]) -> str:
    """Return how a function spells an output: `arg`, or `node:output:position`."""
    node, index = source
    if node in places:
        return places[node]
    ranges = node.op_def.output_ranges(node.attrs)
    for output, (start, stop) in ranges.items():
        if start <= index < stop:
            return f"{node.name}:{output}:{index - start}"
    raise IndexError(index)
