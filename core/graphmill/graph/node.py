"""`Node` and `Edge`: one op in a graph and one connection between two.

Semantics: `tensorflow/core/graph/graph.h`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from graphmill.errors import (
    EmptyGraphError,
    InvalidArgumentError,
    InvalidValueError,
    UnknownNameError,
    suggest,
)
from graphmill.graph.default_session import session_for

if TYPE_CHECKING:
    from collections.abc import Mapping
    from traceback import StackSummary

    from graphmill import proto
    from graphmill.dtypes import DType
    from graphmill.graph.default_session import SessionLike
    from graphmill.graph.graph import Graph
    from graphmill.graph.tensor import Tensor
    from graphmill.ops.definition.op_def import OpDef

    Types: TypeAlias = tuple[tuple[DType, ...], tuple[DType, ...]]  # of inputs and of outputs

CONTROL_SLOT: Final = -1
"""The output and input index of a control edge."""
COLOCATION_ATTR: Final = "_class"
_COLOCATION_PREFIX: Final = b"loc:@"
_MAX_DIGITS: Final = 19  # of an output index; Python refuses to parse very long integers


class Edge:
    """A connection from output `src_output` of `src` to input `dst_input` of `dst`.

    A control edge has `CONTROL_SLOT` at both ends: it orders the two nodes and carries no tensor.
    """

    __slots__ = ("dst", "dst_input", "src", "src_output")

    def __init__(self, src: Node, src_output: int, dst: Node, dst_input: int) -> None:
        self.src = src
        self.src_output = src_output
        self.dst = dst
        self.dst_input = dst_input

    @property
    def is_control(self) -> bool:
        """Whether this is a control edge."""
        return self.src_output == CONTROL_SLOT

    @property
    def tensor_name(self) -> str:
        """The name of its tensor in a GraphDef: `node`, `node:1` or `^node`."""
        return tensor_name(self.src.name, self.src_output)

    def __repr__(self) -> str:
        return f"<Edge {self.tensor_name} -> {self.dst.name}[{self.dst_input}]>"


class Node:
    """One op of a graph.

    Attributes:
        id: index among the nodes; dense and stable for the life of the graph.
        name: unique in the graph.
        op_def: definition of its op.
        attrs: canonical attr values, defaults filled in. Nodes may share them: change them through
            `Graph.set_attr` only.
        device: the requested device, a full or partial name; empty for any.
        assigned_device: full name of the device that placement chose; empty before placement.
        in_edges: the data edges into it; `in_edges[i]` is input i.
        control_in_edges: the control edges into it.
        out_edges: all edges out of it, data and control.
        input_types, output_types: element types of inputs and outputs.
        debug_info: serialized `NodeDef.ExperimentalDebugInfo`, empty if there was none.
    """

    __slots__ = (
        "assigned_device",
        "attrs",
        "control_in_edges",
        "debug_info",
        "device",
        "graph",
        "id",
        "in_edges",
        "input_types",
        "name",
        "op_def",
        "out_edges",
        "output_types",
    )

    def __init__(
        self,
        graph: Graph,
        node_id: int,
        name: str,
        op_def: OpDef,
        attrs: dict[str, Any],
        device: str,
        types: Types | None = None,
    ) -> None:
        self.graph = graph
        self.id = node_id
        self.name = name
        self.op_def = op_def
        self.attrs = attrs
        self.device = device
        self.assigned_device = ""
        self.debug_info = b""
        self.in_edges: list[Edge] = []
        self.control_in_edges: list[Edge] = []
        self.out_edges: list[Edge] = []
        self.input_types, self.output_types = types or (
            op_def.input_types(attrs),
            op_def.output_types(attrs),
        )

    @property
    def op(self) -> str:
        """Name of its op, such as `"MatMul"`; `type` is an alias for users of `tf.Operation`."""
        return self.op_def.name

    @property
    def type(self) -> str:
        """Name of its op, as in `tf.Operation`."""
        return self.op_def.name

    @property
    def sources(self) -> list[tuple[Node, int]]:
        """The (node, output index) pairs that the inputs read; passes and exporters use these."""
        return [(edge.src, edge.src_output) for edge in self.in_edges]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors that it reads, as in `tf.Operation`; `sources` are the pairs of these."""
        from graphmill.graph.tensor import InputTensor  # that module imports this one

        return tuple(InputTensor(edge.src, edge.src_output) for edge in self.in_edges)

    @property
    def outputs(self) -> list[Tensor]:
        """Its output tensors."""
        from graphmill.graph.tensor import Tensor

        return [Tensor(self, index) for index in range(len(self.output_types))]

    def values(self) -> tuple[Tensor, ...]:
        """Return its output tensors, as `tf.Operation` does."""
        return tuple(self.outputs)

    @property
    def node_def(self) -> proto.NodeDef:
        """The node as a message."""
        from graphmill.graph.formats.import_export import node_to_node_def

        return node_to_node_def(self)

    @property
    def control_inputs(self) -> list[Node]:
        """The nodes that must run before it."""
        return [edge.src for edge in self.control_in_edges]

    @property
    def num_outputs(self) -> int:
        """The number of outputs."""
        return len(self.output_types)

    @property
    def traceback(self) -> StackSummary:
        """The line of the program that added it, as the only frame; empty if it is not known.

        `Graph.location_of` is the same as text.
        """
        return self.graph.frames_of(self)

    def colocation_groups(self) -> list[bytes]:
        """Return the groups of nodes that share its device: those that it names, or its own."""
        groups = [
            group
            for group in self.attrs.get(COLOCATION_ATTR, ())
            if group.startswith(_COLOCATION_PREFIX)
        ]
        return groups or [_COLOCATION_PREFIX + self.name.encode()]

    def get_attr(self, name: str) -> Any:
        """Return an attr in canonical form.

        Raises:
            InvalidArgumentError: it has no attr of that name.
        """
        try:
            return self.attrs[name]
        except KeyError:
            raise InvalidArgumentError(
                f"node has no attr {name!r}; it has {', '.join(sorted(self.attrs)) or 'none'}",
                node=self.name,
                op_type=self.op,
            ) from None

    def run(
        self, feed_dict: Mapping[Any, Any] | None = None, session: SessionLike | None = None
    ) -> None:
        """Run the node for its effects, by default in the default session.

        Raises:
            FailedPreconditionError: there is no session.
            OpError: as for `Session.run`.
        """
        session_for(session, f"the operation {self.name!r}").run(self, feed_dict)

    def __repr__(self) -> str:
        return f"<Node {self.name!r} op={self.op}>"


def tensor_name(node_name: str, output: int) -> str:
    """Return the name of an input in a GraphDef: `node`, `node:1`, or `^node` for control."""
    if output == CONTROL_SLOT:
        return "^" + node_name
    return f"{node_name}:{output}" if output else node_name


def output_name(tensor: Any) -> str:
    """Return the name of an output tensor: `node:0`.

    That of a `Variable`, whose `name` is that of its handle, is the name of its read.
    """
    return f"{tensor.op.name}:{tensor.value_index}"


def parse_tensor_name(name: str) -> tuple[str, int]:
    """Split `node`, `node:1` or `^node` into node name and output index.

    Raises:
        InvalidValueError: the part after the colon is not a number.
    """
    if name.startswith("^"):
        return name[1:], CONTROL_SLOT
    node_name, colon, index = name.rpartition(":")
    if not colon:
        return name, 0
    if not (index.isascii() and index.isdigit() and len(index) <= _MAX_DIGITS):
        raise InvalidValueError(
            f"{name!r} is not a tensor name; expected 'node', 'node:<output>' or '^node'"
        )
    return node_name, int(index)


def find_tensor(graph: Graph, name: str, role: str) -> tuple[Node, int]:
    """Return the node and output that a caller names.

    Args:
        graph: the session's graph.
        name: the name, `node:output`.
        role: what the name is used for, for the message: "feed" or "fetch".

    Raises:
        UnknownNameError: there is no such tensor; the message names near matches.
        EmptyGraphError: the graph has no nodes.
    """
    node_name, output = parse_tensor_name(name)
    node = find_node(graph, node_name, role)
    if output == CONTROL_SLOT or output >= len(node.output_types):
        raise UnknownNameError(
            f"{role} {name!r} does not exist: node {node.name!r} (op {node.op}) has "
            f"{len(node.output_types)} outputs"
        )
    return node, output


def find_node(graph: Graph, name: str, role: str) -> Node:
    """Return the node that a caller names, as `find_tensor`."""
    match = graph.node(name) if graph.has_node(name) else None
    if match is None or match in (graph.source, graph.sink):
        if not len(graph):
            raise EmptyGraphError(
                f"{role} {name!r} does not exist: the session's graph is empty. Add operations to "
                "the graph before running it"
            )
        near = suggest(name, (node.name for node in graph))
        raise UnknownNameError(f"{role} {name!r} does not exist: the graph has no such node{near}")
    return match
