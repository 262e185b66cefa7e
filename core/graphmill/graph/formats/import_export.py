"""Convert a GraphDef to a `Graph` and back, without loss (clauses G1, G3, S3).

Semantics: `tensorflow/core/common_runtime/graph_constructor.cc` (ConvertGraphDefToGraph).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from graphmill import proto
from graphmill.errors import (
    InvalidArgumentError,
    NotFoundError,
    UnimplementedError,
    suggest,
)
from graphmill.graph.algorithms import topological_order
from graphmill.graph.graph import PRODUCER_VERSION, Graph, Versions, check_inputs, output_type
from graphmill.graph.node import CONTROL_SLOT, Node, parse_tensor_name, tensor_name
from graphmill.ops.attrs.attr_types import AttrPlaceholder, TensorAttr
from graphmill.ops.attrs.attr_value import attr_from_proto, attrs_to_proto

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphmill.graph.functions.function_library import FunctionLibrary
    from graphmill.ops.definition.op_def import OpDef
    from graphmill.ops.definition.op_registry import OpRegistry

    LargeTensors = Mapping[tuple[str, str, str], Any]

# IsValidNodeName of node_def_util.cc; a node whose name does not match could not be fetched.
_NODE_NAME: Final = re.compile(r"[A-Za-z0-9._][A-Za-z0-9_./-]*(>[A-Za-z0-9.][A-Za-z0-9_./-]*)*")


def graph_from_graph_def(
    graph_def: proto.GraphDef, ops: OpRegistry, large_tensors: LargeTensors | None = None
) -> Graph:
    """Return the graph that a GraphDef describes.

    Args:
        graph_def: the message; the graph keeps its function bodies, so do not change it afterwards.
        ops: the registry of op definitions, searched before the graph's own functions.
        large_tensors: contents that were cut out of the message: arrays, or objects that
            `numpy.asarray` converts, by (function or "", node, attr).

    Raises:
        OpError: see `extend_graph`.
    """
    graph = Graph()
    extend_graph(graph, graph_def, ops, large_tensors)
    return graph


def extend_graph(
    graph: Graph,
    graph_def: proto.GraphDef,
    ops: OpRegistry,
    large_tensors: LargeTensors | None = None,
) -> list[Node]:
    """Add the nodes and functions of a GraphDef to a graph; on an error the graph is unchanged.

    Returns:
        The new nodes.

    Raises:
        NotFoundError: an op is unknown; the message names near matches.
        InvalidArgumentError: a name is used twice, an input is missing, an edge has a wrong type,
            attrs are wrong, a cycle is not a loop, or the message needs a newer consumer.
        UnimplementedError: an op was removed in the GraphDef's version.
    """
    versions = _checked_versions(graph_def)
    library = graph.library
    grown = library.copy()
    grown.add_library(graph_def.library, large_tensors)
    _refuse_names_of_ops(grown, library, ops)
    graph.library = grown
    added: list[Node] = []
    attrs_of = _SharedAttrs(large_tensors)
    try:
        # Not a comprehension: nodes that were added before an error must be withdrawn.
        for node_def in graph_def.node:
            node = _add_node(graph, node_def, ops, versions.producer, attrs_of)
            added.append(node)
        for node, node_def in zip(added, graph_def.node, strict=True):
            _add_edges(graph, node, node_def)
        topological_order(graph)
    except BaseException:
        graph.withdraw(added)
        graph.library = library
        raise
    graph.versions = versions
    return added


def graph_to_graph_def(graph: Graph, nodes: Iterable[Node] | None = None) -> proto.GraphDef:
    """Return the message of a graph, or of some of its nodes, with all its functions."""
    message = proto.GraphDef()
    for node in graph.nodes if nodes is None else nodes:
        write_node_def(node, message.node.add())
    graph.library.write(message.library)
    message.versions.producer = graph.versions.producer
    message.versions.min_consumer = graph.versions.min_consumer
    message.versions.bad_consumers.extend(graph.versions.bad_consumers)
    return message


def node_to_node_def(node: Node) -> proto.NodeDef:
    """Return the message of one node."""
    message: proto.NodeDef = proto.NodeDef()
    write_node_def(node, message)
    return message


def write_node_def(node: Node, message: proto.NodeDef) -> None:
    """Write a node into an empty message."""
    if node.debug_info:
        message.MergeFromString(node.debug_info)
    message.name = node.name
    message.op = node.op
    message.device = node.assigned_device or node.device
    message.input.extend(edge.tensor_name for edge in node.in_edges)
    message.input.extend(
        tensor_name(edge.src.name, CONTROL_SLOT)
        for edge in node.control_in_edges
        if edge.src is not node.graph.source
    )
    attrs_to_proto(node.attrs, message.attr)


def resolve_op(op: str, ops: OpRegistry, graph: Graph) -> OpDef:
    """Return the definition of a registered op, or the signature of a library function.

    Raises:
        NotFoundError: there is neither an op nor a function of that name.
    """
    if op in graph.library and op not in ops:
        return graph.library.signature(op)
    return ops.get(op)


def node_attrs(
    node_def: proto.NodeDef,
    op_def: OpDef,
    large_tensors: LargeTensors | None = None,
    function: str = "",
) -> dict[str, Any]:
    """Return the canonical, unchecked attrs of a node, with defaults filled in."""
    attrs = {name: attr_from_proto(value) for name, value in node_def.attr.items()}
    if large_tensors:
        for name in attrs:
            large = large_tensors.get((function, node_def.name, name))
            if large is not None:
                attrs[name] = TensorAttr(large)
    return op_def.with_defaults(attrs)


def check_node_attrs(op_def: OpDef, attrs: Mapping[str, Any], node_name: str) -> None:
    """Check a complete set of canonical attrs of a node that comes from a message.

    Attrs that the op does not declare are kept and have no effect, as in TensorFlow: a newer
    producer may have written them.

    Raises:
        InvalidArgumentError: an attr is missing or has a wrong value.
    """
    declared: Mapping[str, Any] = attrs
    if len(attrs) > len(op_def.attrs):
        unknown = [n for n in attrs if not (n.startswith("_") or op_def.has_attr(n))]
        if unknown:
            declared = {name: value for name, value in attrs.items() if name not in unknown}
            import logging  # here: most graphs have none, and need not wait for the module

            logging.getLogger("graphmill.graph").warning(
                "node %r: op %s does not know the attrs %s, which have no effect (perhaps a newer "
                "version of TensorFlow wrote them)",
                node_name,
                op_def.name,
                ", ".join(map(repr, unknown)),
            )
    op_def.check_attrs(declared)
    if AttrPlaceholder in map(type, declared.values()):
        name, value = next(it for it in declared.items() if isinstance(it[1], AttrPlaceholder))
        raise InvalidArgumentError(
            f"attr {name!r} of op {op_def.name} is the placeholder {value.name!r}, which has a "
            "value only in a function that is instantiated"
        )


def keep_extras(node: Node, node_def: proto.NodeDef) -> None:
    """Store the parts of a message that nodes do not represent, so that export restores them."""
    if node_def.HasField("experimental_debug_info") or node_def.HasField("experimental_type"):
        extras = proto.NodeDef()
        extras.experimental_debug_info.CopyFrom(node_def.experimental_debug_info)
        if node_def.HasField("experimental_type"):
            extras.experimental_type.CopyFrom(node_def.experimental_type)
        node.debug_info = extras.SerializeToString()


def _checked_versions(graph_def: proto.GraphDef) -> Versions:
    versions = graph_def.versions
    if versions.producer < 0:
        raise InvalidArgumentError(
            f"the GraphDef has producer version {versions.producer}; versions begin at 0"
        )
    if versions.min_consumer > PRODUCER_VERSION:
        raise InvalidArgumentError(
            f"the GraphDef needs a consumer of version {versions.min_consumer}, "
            f"graphmill understands up to {PRODUCER_VERSION}; write the model with an older release"
        )
    if PRODUCER_VERSION in versions.bad_consumers:
        raise InvalidArgumentError(
            f"the GraphDef forbids consumers of version {PRODUCER_VERSION}, which graphmill is"
        )
    return Versions(versions.producer, versions.min_consumer, tuple(versions.bad_consumers))


def _refuse_names_of_ops(grown: FunctionLibrary, before: FunctionLibrary, ops: OpRegistry) -> None:
    for name in grown:
        if name not in before and name in ops:
            raise InvalidArgumentError(
                f"Cannot add function '{name}' because an op with the same name already exists."
            )


def _check_node_name(graph: Graph, node_def: proto.NodeDef) -> None:
    name = node_def.name
    if not name:
        raise InvalidArgumentError(f"a node with op {node_def.op!r} has no name")
    if _NODE_NAME.fullmatch(name) is None:
        raise InvalidArgumentError(
            f"Node '{name}': Node name contains invalid characters; names consist of letters, "
            "digits and _ . - / >"
        )
    if graph.has_node(name):
        raise InvalidArgumentError(
            f"Node '{name}' is not unique: the graph already has one (op {graph.node(name).op})"
        )


class _SharedAttrs:
    """Parses and checks the attrs of nodes; nodes with equal ops and attrs share one dict."""

    def __init__(self, large_tensors: LargeTensors | None) -> None:
        self._large_tensors = large_tensors
        self._have_large = {node for _, node, _ in large_tensors or ()}
        self._parsed: dict[tuple[object, ...], dict[str, Any]] = {}

    def __call__(self, node_def: proto.NodeDef, op_def: OpDef) -> dict[str, Any]:
        """Return the canonical attrs of a node.

        Raises:
            InvalidArgumentError: an attr is missing or has a wrong value.
        """
        if op_def.has_tensor_attrs or node_def.name in self._have_large:
            return self._parse(node_def, op_def)
        key = op_def.name, *[(name, v.SerializeToString()) for name, v in node_def.attr.items()]
        attrs = self._parsed.get(key)
        if attrs is None:
            attrs = self._parsed[key] = self._parse(node_def, op_def)
        return attrs

    def _parse(self, node_def: proto.NodeDef, op_def: OpDef) -> dict[str, Any]:
        attrs = node_attrs(node_def, op_def, self._large_tensors)
        check_node_attrs(op_def, attrs, node_def.name)
        return attrs


def _add_node(
    graph: Graph,
    node_def: proto.NodeDef,
    ops: OpRegistry,
    producer: int,
    attrs_of: _SharedAttrs,
) -> Node:
    try:
        _check_node_name(graph, node_def)
        op_def = resolve_op(node_def.op, ops, graph)
        if op_def.deprecated_version and producer >= op_def.deprecated_version:
            raise UnimplementedError(
                f"Op {op_def.name} is not available in GraphDef version {producer}; "
                f"it was removed in version {op_def.deprecated_version}"
            )
        attrs = attrs_of(node_def, op_def)
        node = graph.add_unconnected(node_def.name, op_def, attrs, node_def.device)
    except (InvalidArgumentError, NotFoundError, UnimplementedError) as error:
        error.locate(node=node_def.name, op_type=node_def.op, node_def=_copied(node_def))
        raise
    keep_extras(node, node_def)
    return node


def _copied(node_def: proto.NodeDef) -> proto.NodeDef:
    copied: proto.NodeDef = proto.NodeDef()
    copied.CopyFrom(node_def)
    return copied


def _add_edges(graph: Graph, node: Node, node_def: proto.NodeDef) -> None:
    sources: list[tuple[Node, int]] = []
    control: list[Node] = []
    try:
        for text in node_def.input:
            src, output = _source(graph, node, text)
            if output == CONTROL_SLOT:
                control.append(src)
            elif control:
                raise InvalidArgumentError(
                    f"Node '{node.name}': data input '{text}' follows a control input; "
                    "control inputs come last"
                )
            else:
                sources.append((src, output))
        check_inputs(node, [output_type(src, index) for src, index in sources])
    except InvalidArgumentError as error:
        error.locate(node=node.name, op_type=node.op, node_def=_copied(node_def))
        raise
    for position, (src, index) in enumerate(sources):
        graph.add_edge(src, index, node, position)
    if control:
        graph.add_control_edges(control, node)


def _source(graph: Graph, node: Node, text: str) -> tuple[Node, int]:
    name, output = parse_tensor_name(text)
    if not graph.has_node(name):
        near = suggest(name, (other.name for other in graph))
        raise InvalidArgumentError(f"Node '{node.name}': Unknown input node '{text}'{near}")
    return graph.node(name), output
