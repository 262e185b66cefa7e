"""`GraphNodes`: the nodes of a step and of the functions that it calls, in columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import OpError
from graphmill.graph.control_flow.frames import analyse_frames
from graphmill.graph.functions.function_calls import called_functions
from graphmill.graph.node_roles import is_constant, is_next_iteration
from graphmill.ops.attrs.attr_types import FuncAttr, TensorAttr
from graphmill.ops.definition.op_traits import Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from graphmill.graph.control_flow.frames import FramePath
    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.ops.definition.op_registry import OpRegistry
    from graphmill.proto.function_pb2 import FunctionDef
    from graphmill.proto.node_def_pb2 import NodeDef

_MAX_ATTRS: Final = 160  # characters


@dataclass(slots=True)
class GraphNodes:
    """The nodes of a graph; entry `i` of each list is about node `i`.

    Attributes:
        names: the names, unique; nodes of functions are named `function/node`.
        ops: the op types.
        inputs: the positions of the nodes whose outputs it takes; `~position` for a control input.
        functions: the function whose body it is in; "" for the graph itself.
        frames: the names of the frames that it is in, from the outside in.
        attrs: its attrs as text, shortened.
        constants: the positions of constants.
        loops_back: the positions of nodes whose outputs go to the next iteration of a loop.
        calls: the functions that a node calls, by position of the node.
    """

    names: list[str] = field(default_factory=list)
    ops: list[str] = field(default_factory=list)
    inputs: list[list[int]] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    frames: list[FramePath] = field(default_factory=list)
    attrs: list[str] = field(default_factory=list)
    constants: set[int] = field(default_factory=set)
    loops_back: set[int] = field(default_factory=set)
    calls: dict[int, list[str]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.names)

    def local_name(self, position: int) -> str:
        """Return the name of a node in its graph or function."""
        function = self.functions[position]
        name = self.names[position]
        return name.removeprefix(f"{function}/") if function else name


def graph_nodes(graph: Graph, ops: OpRegistry) -> GraphNodes:
    """Return the nodes of a graph in the order of data flow, then those of called functions.

    Each function that stays a call (a loop body, a branch, a function of a dataset) appears once.

    Args:
        graph: the graph, such as `Session.step_graph` returns.
        ops: the ops of the host, for the nodes of functions.
    """
    nodes = GraphNodes()
    waiting = _add_graph(nodes, graph)
    seen: set[str] = set()
    while waiting:
        name = waiting.pop(0)
        if name not in seen and name in graph.library:
            seen.add(name)
            waiting += _add_function(nodes, graph.library.get(name), ops)
    return nodes


def _add_graph(nodes: GraphNodes, graph: Graph) -> list[str]:
    """Add the nodes of a graph, and return the names of the functions that they call."""
    try:
        frames, _ = analyse_frames(graph)
    except OpError:  # the graph cannot run either; it is drawn without frames
        frames = dict.fromkeys(graph.nodes, ())
    positions = {node: position for position, node in enumerate(frames)}
    called = []
    for node, position in positions.items():
        nodes.names.append(node.name)
        nodes.ops.append(node.op)
        nodes.inputs.append(_inputs_of(node, positions))
        nodes.functions.append("")
        nodes.frames.append(frames[node])
        nodes.attrs.append(attrs_text(node.attrs))
        if is_constant(node):
            nodes.constants.add(position)
        if is_next_iteration(node):
            nodes.loops_back.add(position)
        names = [function.name for function in called_functions(node, graph.library)]
        if names:
            nodes.calls[position] = names
            called += names
    return called


def _inputs_of(node: Node, positions: dict[Node, int]) -> list[int]:
    data = [positions[edge.src] for edge in node.in_edges if edge.src in positions]
    control = [~positions[edge.src] for edge in node.control_in_edges if edge.src in positions]
    return data + control


def _add_function(nodes: GraphNodes, function: FunctionDef, ops: OpRegistry) -> list[str]:
    """Add the nodes of a function, and return the names of the functions that they call."""
    name = function.signature.name
    first = len(nodes)
    positions: dict[str, int] = {}
    arguments = [(arg.name, "argument", "") for arg in function.signature.input_arg]
    for local, op, attrs in [
        *arguments,
        *((node.name, node.op, _proto_attrs(node)) for node in function.node_def),
    ]:
        positions[local] = len(nodes)
        nodes.names.append(f"{name}/{local}")
        nodes.ops.append(op)
        nodes.inputs.append([])
        nodes.functions.append(name)
        nodes.frames.append(())
        nodes.attrs.append(attrs)
    called: list[str] = []
    for position, node in enumerate(function.node_def, first + len(arguments)):
        nodes.inputs[position] = list(_inputs_of_def(node, positions))
        definition = ops.find(node.op)
        if definition is not None and definition.traits.source is Source.CONSTANT:
            nodes.constants.add(position)
        names = [attr.func.name for attr in node.attr.values() if attr.HasField("func")]
        names += [called.name for attr in node.attr.values() for called in attr.list.func]
        if names:
            nodes.calls[position] = names
            called += names
    return called


def _inputs_of_def(node: NodeDef, positions: dict[str, int]) -> Iterator[int]:
    for text in node.input:
        is_control = text.startswith("^")
        position = positions.get(text.lstrip("^").partition(":")[0])
        if position is not None:
            yield ~position if is_control else position


def attrs_text(attrs: Mapping[str, Any], limit: int = _MAX_ATTRS) -> str:
    """Return attrs as `T=float32, transpose_a=False`, shortened; private ones are left out.

    Args:
        attrs: the attrs in canonical form, by name.
        limit: the number of characters at most.
    """
    parts = []
    length = 0
    for name, value in attrs.items():
        if name.startswith("_"):
            continue
        parts.append(f"{name}={_value_text(value)}")
        length += len(parts[-1]) + 2
        if length > limit:
            break
    return _shortened(", ".join(parts), limit)


def _value_text(value: Any) -> str:
    if isinstance(value, TensorAttr):
        return f"{value.dtype.name}{list(value.shape)}"
    if isinstance(value, FuncAttr):
        return value.name
    if isinstance(value, bytes):
        return _shortened(value.decode("utf-8", "backslashreplace"), _MAX_ATTRS)
    if isinstance(value, (list, tuple)):
        inner = ", ".join(_value_text(item) for item in value[:8])
        return f"[{inner}{', …' if len(value) > len(value[:8]) else ''}]"
    name = getattr(value, "name", None)
    return name if isinstance(name, str) else str(value)


def _proto_attrs(node: NodeDef) -> str:
    from graphmill.dtypes import as_dtype

    parts = []
    for name, value in sorted(node.attr.items()):
        kind = value.WhichOneof("value")
        if name.startswith("_") or kind is None:
            continue
        if kind == "type":
            parts.append(f"{name}={as_dtype(value.type).name}")
        elif kind == "func":
            parts.append(f"{name}={value.func.name}")
        elif kind in ("i", "f", "b"):
            parts.append(f"{name}={getattr(value, kind)}")
    return _shortened(", ".join(parts), _MAX_ATTRS)


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
