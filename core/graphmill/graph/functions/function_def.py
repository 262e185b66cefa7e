"""Convert a graph to a `FunctionDef` message, which `function_body.py` reads.

Semantics: `GraphToFunctionDef` in tensorflow/core/framework/graph_to_functiondef.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill import proto
from graphmill.graph.algorithms import ancestors
from graphmill.graph.formats.import_export import node_to_node_def

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node


def function_def(
    name: str,
    graph: Graph,
    args: Sequence[Node],
    results: Sequence[tuple[Node, int]],
    also: Iterable[Node] = (),
) -> proto.FunctionDef:
    """Return a function that computes some outputs of a graph from the outputs of other nodes.

    Args:
        name: name of the function.
        graph: the graph.
        args: nodes with one output, which become the arguments.
        results: the outputs that the function returns.
        also: further nodes of it, which are run for their effects.
    """
    function = proto.FunctionDef()
    function.signature.name = name
    arg_names = {node: f"arg_{index}" for index, node in enumerate(args)}
    for node, arg_name in arg_names.items():
        function.signature.input_arg.add(name=arg_name, type=node.output_types[0].enum)
    needed = ancestors([*(node for node, _ in results), *also]) - set(args)
    for node in sorted(needed, key=lambda node: node.id):
        if node is graph.source:
            continue
        message = function.node_def.add()
        message.CopyFrom(node_to_node_def(node))
        del message.input[:]
        message.input.extend(_spelled(source, arg_names) for source in node.sources)
        message.input.extend(f"^{src.name}" for src in node.control_inputs if src in needed)
        function.signature.is_stateful |= node.op_def.is_stateful
    for index, source in enumerate(results):
        dtype = source[0].output_types[source[1]]
        function.signature.output_arg.add(name=f"result_{index}", type=dtype.base_dtype.enum)
        function.ret[f"result_{index}"] = _spelled(source, arg_names)
    return function


def _spelled(source: tuple[Node, int], arg_names: dict[Node, str]) -> str:
    """Return the name of an output within a function: `arg`, or `node:output:index`."""
    node, index = source
    if node in arg_names:
        return arg_names[node]
    ranges = node.op_def.output_ranges(node.attrs)
    for output, (start, stop) in ranges.items():
        if start <= index < stop:
            return f"{node.name}:{output}:{index - start}"
    raise IndexError(index)
