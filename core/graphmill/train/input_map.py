"""Let the nodes of a GraphDef read tensors of the graph that they are added to.

Semantics: `input_map` of tensorflow/python/framework/importer.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError, suggest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.graph.builder import Graph


def map_inputs(graph_def: Any, input_map: Mapping[str, Any], graph: Graph, scope: str = "") -> None:
    """Replace inputs of the nodes of a GraphDef.

    Args:
        graph_def: the message, which is changed.
        input_map: tensors of `graph`, or values, by the names of the tensors they replace.
        graph: the graph that the nodes will be added to.
        scope: a prefix of the names in the message, which those in `input_map` lack.

    Raises:
        InvalidArgumentError: no node reads a tensor of that name, or the graph has no such tensor.
    """
    tensors = {
        scope + _full_name(name): _tensor(graph, name, input_map[name]) for name in input_map
    }
    read: set[str] = set()
    for node in graph_def.node:
        for position, text in enumerate(node.input):
            name = _full_name(text)
            read.add(name)
            if name in tensors:
                node.input[position] = tensors[name]
    for name in tensors:
        if name not in read:
            shown = name.removeprefix(scope)
            raise InvalidArgumentError(
                f"input_map names {shown!r}, but no node of the graph to import reads it"
                + suggest(shown, (other.removeprefix(scope) for other in sorted(read)))
            )


def _tensor(graph: Graph, name: str, value: Any) -> str:
    """Add a value to the graph if it is not a tensor already; return the tensor's name."""
    try:
        with graph.control_dependencies(None):
            return graph.convert(value, name="input_map/Const").name
    except InvalidArgumentError as error:
        error.message = f"the value of {name!r} in input_map: {error.message}"
        raise


def _full_name(name: str) -> str:
    return name if ":" in name or name.startswith("^") else f"{name}:0"
