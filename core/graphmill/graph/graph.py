"""`Graph`: the graph representation of the whole runtime (clause G1).

Semantics: `tensorflow/core/graph/graph.h`. The user's `graphmill.Graph` adds scopes and operators
(`graph/builder.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from graphmill.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    UnknownNameError,
    suggest,
)
from graphmill.graph.functions.function_library import FunctionLibrary
from graphmill.graph.node import CONTROL_SLOT, Edge, Node
from graphmill.ops.definition.system_ops import NO_OP

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from traceback import StackSummary

    from graphmill.dtypes import DType
    from graphmill.graph.node import Types
    from graphmill.ops.definition.op_def import OpDef
    from graphmill.ops.inference.tensor_shape import TensorShape
    from graphmill.typing import Shape

SOURCE_NAME = "_SOURCE"
SINK_NAME = "_SINK"
PRODUCER_VERSION = 2474
"""The GraphDef version of graphs that graphmill writes; TensorFlow 2.21 reads and writes it."""


_MAX_TYPES = 32  # of a list in a message


class Versions(NamedTuple):
    """A graph's `VersionDef`."""

    producer: int = PRODUCER_VERSION
    min_consumer: int = 0
    bad_consumers: tuple[int, ...] = ()


class Graph:
    """A directed graph of ops; a cycle must contain an edge from a `NextIteration` to a `Merge`.

    Node ids are dense and stable. Ids 0 and 1 are `_SOURCE` and `_SINK`, which come before and
    after all other nodes; `connect_source_and_sink` adds their edges.

    Threads: a graph has no lock; do not change it while another thread uses it.

    Attributes:
        library: the functions that its nodes may call.
        versions: the `VersionDef`.
        edit_count: how often a node that a session has copied was changed or removed; added nodes,
            and changes of nodes that no session has copied yet, do not count.
        notes: records that passes leave for `explain`, by kind.
        has_protected: whether there is anything that sessions refuse to feed or to fetch, which
            only subclasses have (`ProtectedTensors`).
    """

    has_protected = False

    def __init__(self) -> None:
        self._nodes: list[Node | None] = []
        self._by_name: dict[str, Node] = {}
        self.library = FunctionLibrary()
        self.versions = Versions()
        self.edit_count = 0
        self.notes: dict[str, Any] = {}
        self._num_copied = 0  # nodes with a smaller id were copied by a session
        self.source = self._insert(SOURCE_NAME, NO_OP, {}, "")
        self.sink = self._insert(SINK_NAME, NO_OP, {}, "")

    @property
    def nodes(self) -> list[Node]:
        """All nodes except `_SOURCE` and `_SINK`, by id."""
        return [node for node in self._nodes[2:] if node is not None]

    @property
    def num_node_ids(self) -> int:
        """One more than the largest id ever given."""
        return len(self._nodes)

    def nodes_since(self, node_id: int) -> list[Node]:
        """Return the nodes whose id is `node_id` or larger."""
        return [node for node in self._nodes[max(node_id, 2) :] if node is not None]

    def mark_taken(self) -> None:
        """Record that a session has copied all nodes: later changes of one count as edits."""
        self._num_copied = len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self._by_name) - 2

    def has_node(self, name: str) -> bool:
        """Return whether there is a node of that name."""
        return name in self._by_name

    def node(self, name: str) -> Node:
        """Return a node by name.

        Raises:
            NotFoundError: there is no node of that name; the message names near matches.
        """
        match = self._by_name.get(name)
        if match is None:
            near = suggest(name, (n for n in self._by_name if n not in (SOURCE_NAME, SINK_NAME)))
            raise UnknownNameError(f"the graph has no node {name!r}{near}")
        return match

    def operation_at(self, name: str) -> Node | None:
        """Return the node that a name means outside of functions.

        Args:
            name: the name of a node, or of one inside a function (`call/node`), for which the call
                is returned.

        Returns:
            None if there is no such node.
        """
        while name not in self._by_name:
            name, separator, _ = name.rpartition("/")
            if not separator:
                return None
        return self._by_name[name]

    def shapes_of(self, node: Node) -> tuple[TensorShape, ...]:
        """Return the static shapes of outputs; unknown ones, as only `ShapedGraph` infers them."""
        from graphmill.ops.inference.tensor_shape import UNKNOWN_SHAPE  # no step needs it

        return (UNKNOWN_SHAPE,) * len(node.output_types)

    def declared_shape(self, name: str, output: int) -> Shape:
        """Return the declared static shape of a tensor; None, as `ShapedGraph` alone has any."""
        del name, output
        return None

    def frames_of(self, node: Node) -> StackSummary:
        """Return the frames that made a node; none, as only `builder.Graph` records them."""
        from traceback import StackSummary  # no step needs it

        del node
        return StackSummary()

    def location_of(self, name: str) -> str | None:
        """Return the source location that made a node; None, as only `builder.Graph` records it."""
        del name
        return None

    def add_node(
        self,
        name: str,
        op_def: OpDef,
        inputs: Iterable[tuple[Node, int]] = (),
        control_inputs: Iterable[Node] = (),
        attrs: dict[str, Any] | None = None,
        device: str = "",
    ) -> Node:
        """Add a node with all its edges; the attrs must be complete and canonical.

        Raises:
            AlreadyExistsError: the name is taken.
            InvalidArgumentError: the number or types of the inputs do not match the op, or
                `op_def` is a name, or `control_inputs` are attrs.
        """
        if isinstance(op_def, str) or _are_attrs(control_inputs):
            raise _wrong_arguments(name, op_def)
        sources = list(inputs)
        node = self._insert(name, op_def, attrs or {}, device)
        try:
            check_inputs(node, [output_type(src, index) for src, index in sources])
        except InvalidArgumentError:
            self.withdraw([node])
            raise
        for position, (src, index) in enumerate(sources):
            self.add_edge(src, index, node, position)
        self.add_control_edges(control_inputs, node)
        return node

    def copy_nodes(self, nodes: Iterable[Node]) -> dict[Node, Node]:
        """Add copies of another graph's nodes, without edges; return the copy of each.

        Attrs are shared, not copied.

        Raises:
            AlreadyExistsError: a name is taken.
        """
        copies = {}
        for node in nodes:
            types = node.input_types, node.output_types
            copy = self._insert(node.name, node.op_def, node.attrs, node.device, types)
            copy.assigned_device = node.assigned_device
            copy.debug_info = node.debug_info
            copies[node] = copy
        return copies

    def add_copies(self, nodes: Sequence[Node]) -> None:
        """Add copies of another graph's nodes with their edges; on an error add nothing.

        Their inputs must be among them, or be nodes of this graph with the same names.

        Raises:
            AlreadyExistsError: a name is taken.
            NotFoundError: an input is missing.
        """
        added: list[Node] = []
        try:
            for node in nodes:
                added.extend(self.copy_nodes([node]).values())
            for node in nodes:
                self._copy_edges(node)
        except BaseException:
            self.withdraw(added)
            raise

    def _copy_edges(self, node: Node) -> None:
        copy = self.node(node.name)
        for position, edge in enumerate(node.in_edges):
            self.add_edge(self.node(edge.src.name), edge.src_output, copy, position)
        sources = [src for src in node.control_inputs if src is not node.graph.source]
        if sources:
            self.add_control_edges([self.node(src.name) for src in sources], copy)

    def add_unconnected(self, name: str, op_def: OpDef, attrs: dict[str, Any], device: str) -> Node:
        """Add a node without edges; import adds these later, because they may point forwards.

        Raises:
            AlreadyExistsError: the name is taken.
        """
        return self._insert(name, op_def, attrs, device)

    def add_edge(self, src: Node, src_output: int, dst: Node, dst_input: int) -> Edge:
        """Connect an output to the next free input of a node."""
        if src_output == CONTROL_SLOT:
            return self.add_control_edge(src, dst)
        edge = Edge(src, src_output, dst, dst_input)
        if dst_input != len(dst.in_edges):
            raise InvalidArgumentError(
                f"input {dst_input} is connected before input {len(dst.in_edges)}",
                node=dst.name,
                op_type=dst.op,
            )
        dst.in_edges.append(edge)
        src.out_edges.append(edge)
        return edge

    def add_control_edge(self, src: Node, dst: Node) -> Edge:
        """Make `dst` run after `src`; return the edge, which may exist already."""
        for edge in dst.control_in_edges:
            if edge.src is src:
                return edge
        edge = self._connect_control(src, dst)
        self._note_edit(dst)
        return edge

    def add_control_edges(self, sources: Iterable[Node], dst: Node) -> None:
        """Make `dst` run after all of `sources`, without duplicate edges."""
        existing = {edge.src for edge in dst.control_in_edges}
        for src in sources:
            if src not in existing:
                existing.add(src)
                self._connect_control(src, dst)
                self._note_edit(dst)

    def replace_input(self, dst: Node, dst_input: int, src: Node, src_output: int) -> None:
        """Make an input read another output.

        Raises:
            InvalidArgumentError: the output does not exist, or has another element type.
        """
        types = list(dst.input_types)
        types[dst_input] = output_type(src, src_output)
        check_inputs(dst, types)
        old = dst.in_edges[dst_input]
        old.src.out_edges.remove(old)
        edge = Edge(src, src_output, dst, dst_input)
        dst.in_edges[dst_input] = edge
        src.out_edges.append(edge)
        self._note_edit(dst)

    def redirect(self, old: Node, old_output: int, new: Node, new_output: int) -> None:
        """Make all consumers of one output read another output of the same element type."""
        moved = [edge for edge in old.out_edges if edge.src_output == old_output]
        old.out_edges[:] = [edge for edge in old.out_edges if edge.src_output != old_output]
        for edge in moved:
            edge.src, edge.src_output = new, new_output
            new.out_edges.append(edge)
            self._note_edit(edge.dst)

    def remove_control_edge(self, edge: Edge) -> None:
        """Remove a control edge."""
        edge.src.out_edges.remove(edge)
        edge.dst.control_in_edges.remove(edge)
        self._note_edit(edge.dst)

    def set_attr(self, node: Node, name: str, value: Any) -> None:
        """Set an attr of a node, in canonical form; copies in other graphs keep their value.

        Raises:
            InvalidArgumentError: the attrs do not determine the types of inputs or outputs.
        """
        attrs = {**node.attrs, name: value}
        input_types, output_types = node.op_def.input_types(attrs), node.op_def.output_types(attrs)
        node.attrs, node.input_types, node.output_types = attrs, input_types, output_types
        self._note_edit(node)

    def remove_node(self, node: Node) -> None:
        """Remove a node and all its edges.

        Raises:
            InvalidArgumentError: another node still reads one of its outputs.
        """
        for edge in node.out_edges:
            if not edge.is_control:
                raise InvalidArgumentError(
                    f"cannot be removed while {edge.dst.name!r} reads it",
                    node=node.name,
                    op_type=node.op,
                )
        self._note_edit(node)
        self.withdraw([node])

    def withdraw(self, nodes: Iterable[Node]) -> None:
        """Remove nodes and their edges without counting an edit, as if never added."""
        removed = set(nodes)
        sources = {e.src for node in removed for e in (*node.in_edges, *node.control_in_edges)}
        for src in sources - removed:
            src.out_edges[:] = [edge for edge in src.out_edges if edge.dst not in removed]
        followers = {edge.dst for node in removed for edge in node.out_edges if edge.is_control}
        for dst in followers - removed:
            dst.control_in_edges[:] = [e for e in dst.control_in_edges if e.src not in removed]
        for node in removed:
            node.in_edges.clear()
            node.control_in_edges.clear()
            node.out_edges.clear()
            del self._by_name[node.name]
            self._nodes[node.id] = None
        while self._nodes[-1] is None:
            self._nodes.pop()

    def replace_node(self, old: Node, new: Node) -> None:
        """Replace a node by another, which gets its consumers, control edges out and name.

        Args:
            old: the node to remove.
            new: a node with outputs of the same element types.
        """
        for output in range(old.num_outputs):
            self.redirect(old, output, new, output)
        for edge in [edge for edge in old.out_edges if edge.is_control]:
            self.remove_control_edge(edge)
            self.add_control_edge(new, edge.dst)
        self.withdraw([old])
        del self._by_name[new.name]
        new.name = old.name
        self._by_name[new.name] = new

    def connect_source_and_sink(self) -> None:
        """Connect `_SOURCE` to nodes without inputs, and nodes without consumers to `_SINK`."""
        for node in self.nodes:
            if not node.in_edges and not node.control_in_edges:
                self._connect_control(self.source, node)
            if not node.out_edges:
                self._connect_control(node, self.sink)

    def _insert(
        self,
        name: str,
        op_def: OpDef,
        attrs: dict[str, Any],
        device: str,
        types: Types | None = None,
    ) -> Node:
        if name in self._by_name:
            raise AlreadyExistsError(
                f"the graph already has a node {name!r} (op {self._by_name[name].op}); "
                "node names must be unique",
                node=name,
                op_type=op_def.name,
            )
        node = Node(self, len(self._nodes), name, op_def, attrs, device, types)
        self._nodes.append(node)
        self._by_name[name] = node
        return node

    def _connect_control(self, src: Node, dst: Node) -> Edge:
        edge = Edge(src, CONTROL_SLOT, dst, CONTROL_SLOT)
        dst.control_in_edges.append(edge)
        src.out_edges.append(edge)
        return edge

    def _note_edit(self, node: Node) -> None:
        if node.id < self._num_copied:
            self.edit_count += 1


def _are_attrs(control_inputs: Iterable[Node]) -> bool:
    """Return whether control inputs are a dict of attrs; they may be a dict of nodes."""
    return isinstance(control_inputs, dict) and any(isinstance(key, str) for key in control_inputs)


def _wrong_arguments(name: str, op_def: OpDef | str) -> InvalidArgumentError:
    """Return the error of `add_node` for an op's name, or for attrs in place of control inputs."""
    if isinstance(op_def, str):
        text = f"the op is given by name; pass its OpDef, as in options.host.ops.get({op_def!r})"
    else:
        text = "control_inputs has names; pass attrs by keyword, as in attrs={'T': ...}"
    return InvalidArgumentError(text, node=name)


def output_type(node: Node, index: int) -> DType:
    """Return the element type of an output.

    Raises:
        InvalidArgumentError: the node has no such output.
    """
    if not 0 <= index < len(node.output_types):
        raise InvalidArgumentError(
            f"output {index} of node {node.name!r} (op {node.op}) does not exist; the node has "
            f"{len(node.output_types)}"
        )
    return node.output_types[index]


def check_inputs(node: Node, actual: Sequence[DType]) -> None:
    """Check the number and types of a node's inputs.

    A ref output may feed an ordinary input, never the other way round.

    Raises:
        InvalidArgumentError: they do not match the op.
    """
    expected = node.input_types
    if len(actual) != len(expected):
        raise InvalidArgumentError(
            f"expected inputs '{_type_list(expected)}' do not match {len(actual)} inputs specified",
            node=node.name,
            op_type=node.op,
        )
    for position, (expected_type, type_) in enumerate(zip(expected, actual, strict=True)):
        if type_ is not expected_type and type_.base_dtype is not expected_type:
            raise InvalidArgumentError(
                f"Input {position} of node {node.name} was passed {type_.tf_name} "
                f"incompatible with expected {expected_type.tf_name}.",
                node=node.name,
                op_type=node.op,
            )


def _type_list(types: Sequence[DType]) -> str:
    text = ", ".join(dtype.tf_name for dtype in types[:_MAX_TYPES])
    return text if len(types) <= _MAX_TYPES else f"{text}, … ({len(types)} in all)"
