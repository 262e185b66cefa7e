"""Insert debug nodes for watched tensors (clause P6).

Semantics: `DebugNodeInserter` in `tensorflow/core/debug/debug_graph_utils.cc`: a `Copy` of the
watched tensor feeds the debug ops, and the tensor's consumers wait for them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    suggest,
)
from graphmill.graph.functions.function_calls import calls_of
from graphmill.graph.node_roles import is_argument_or_result, is_transfer
from graphmill.ops.definition.op_traits import ControlFlow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.ops.definition.op_registry import OpRegistry

_SPEC: Final = re.compile(r"(?P<op>\w+)(?:\((?P<attrs>[^)]*)\))?")
_ANY_NODE: Final = "*"
_ANY_SLOT: Final = -1
_LOOP_ROLES: Final = (
    *(ControlFlow.MERGE, ControlFlow.NEXT_ITERATION),
    *(ControlFlow.ENTER, ControlFlow.EXIT),
)
_SPEC_ATTR: Final = "debug_ops_spec"  # an attr of the ops that a debugger inserts


def insert_debug_nodes(
    graph: Graph, watches: Iterable[Any], ops: OpRegistry, full: Graph | None = None
) -> None:
    """Insert the nodes for the `DebugTensorWatch`es of `RunOptions.debug_options`.

    A watch may name a node inside a function (`call/node`) if its call is inlined. One with node
    name `*` applies to all nodes, one with slot -1 to all outputs. Reference
    outputs are watched by value.

    Args:
        graph: the graph that is run, which is changed.
        watches: the watches.
        ops: the ops of the host.
        full: the session's graph, of which `graph` is a part. As in TensorFlow, watches of its
            nodes that the step does not run are skipped.

    Raises:
        NotFoundError: a watched node does not exist, or has no such output; or a debug op is
            unknown. A watch with `tolerate_debug_op_creation_failures` is skipped instead.
        InvalidArgumentError: a debug op is malformed.
    """
    watched: dict[tuple[Node, int], list[Any]] = {}
    for watch in watches:
        name = watch.node_name
        if full is not None and not graph.has_node(name) and _is_elsewhere(name, graph, full):
            continue
        try:
            for tensor in _tensors(graph, watch):
                watched.setdefault(tensor, []).append(watch)
        except NotFoundError:
            if not watch.tolerate_debug_op_creation_failures:
                raise
    for (node, output), its_watches in watched.items():
        _watch(graph, node, output, its_watches, ops)


def parse_debug_op(spec: str) -> tuple[str, dict[str, str]]:
    """Split `DebugNumericSummary(lower_bound=-1;upper_bound=1)` into op name and attrs.

    Raises:
        InvalidArgumentError: the spec is malformed.
    """
    match = _SPEC.fullmatch(spec)
    if match is None:
        raise InvalidArgumentError(
            f"debug op {spec!r} is malformed; expected 'Name' or 'Name(attr=value;attr=value)'"
        )
    attrs: dict[str, str] = {}
    for part in filter(None, (match["attrs"] or "").split(";")):
        name, equals, value = part.partition("=")
        if not equals:
            raise InvalidArgumentError(f"debug op {spec!r}: {part!r} is not attr=value")
        attrs[name.strip()] = value.strip()
    return match["op"], attrs


def _tensors(graph: Graph, watch: Any) -> list[tuple[Node, int]]:
    if watch.node_name == _ANY_NODE:
        nodes = [n for n in graph.nodes if _is_of_graph(n) and n.output_types]
    elif graph.has_node(watch.node_name):
        nodes = [graph.node(watch.node_name)]
    else:
        raise NotFoundError(
            f"the debug watch of node {watch.node_name!r} is invalid: this step runs no such node"
            f"{suggest(watch.node_name, (node.name for node in graph.nodes))}"
        )
    tensors = []
    for node in nodes:
        slots = range(node.num_outputs) if watch.output_slot == _ANY_SLOT else [watch.output_slot]
        for slot in slots:
            if slot < node.num_outputs:
                tensors.append((node, slot))
            elif watch.node_name != _ANY_NODE:
                raise NotFoundError(
                    f"the debug watch of output {slot} of node {node.name!r} is invalid: the node "
                    f"has {node.num_outputs} outputs"
                )
    return [tensor for tensor in tensors if _is_watchable(*tensor)]


def _is_elsewhere(name: str, graph: Graph, full: Graph) -> bool:
    """Return whether the step runs neither a node nor the call that contains it."""
    if full.has_node(name):
        return True
    from graphmill.lowering.functions.inner_nodes import enclosing_node  # few watches

    call = enclosing_node(full, name)
    if call is None or not calls_of(call) or graph.has_node(call.name):
        return False
    return not any(node.name.startswith(f"{call.name}/") for node in graph.nodes)


def _is_of_graph(node: Node) -> bool:
    """Return whether a node is from the user's graph, not a boundary or inserted by a debugger."""
    is_boundary = is_argument_or_result(node) or is_transfer(node)
    return not (is_boundary or node.op_def.has_attr(_SPEC_ATTR))


def _is_watchable(node: Node, slot: int) -> bool:
    return node.output_types[slot].is_numpy_compatible


def _watch(graph: Graph, node: Node, output: int, watches: Iterable[Any], ops: OpRegistry) -> None:
    consumers = list(
        dict.fromkeys(edge.dst for edge in node.out_edges if edge.src_output == output)
    )
    dtype = node.output_types[output].base_dtype
    tensor_name = f"{node.name}:{output}"
    copy_def = ops.get("Copy")
    copy = graph.add_node(
        _free_name(graph, f"__copy_{node.name}_{output}"),
        copy_def,
        [(node, output)],
        attrs=copy_def.with_defaults({"T": dtype, "tensor_name": tensor_name.encode()}),
        device=node.device,
    )
    if not node.output_types[output].is_ref:  # consumers of a reference still need the reference
        _read_copy(graph, node, output, copy)
    index = 0
    for watch in watches:
        for spec in watch.debug_ops:
            debug = _add_debug_node(graph, copy, tensor_name, spec, watch, index, ops)
            index += 1
            if debug is not None:
                for consumer in consumers:
                    if not _is_loop_edge(consumer):
                        graph.add_control_edge(debug, consumer)


def _read_copy(graph: Graph, node: Node, output: int, copy: Node) -> None:
    graph.redirect(node, output, copy, 0)
    graph.replace_input(copy, 0, node, output)


def _is_loop_edge(consumer: Node) -> bool:
    # A Merge must not wait for debug nodes of the branch that is not taken.
    return consumer.op_def.traits.control_flow in _LOOP_ROLES


def _add_debug_node(
    graph: Graph,
    copy: Node,
    tensor_name: str,
    spec: str,
    watch: Any,
    index: int,
    ops: OpRegistry,
) -> Node | None:
    try:
        name, texts = parse_debug_op(spec)
        op_def = ops.get(name)
        attrs = op_def.canonical_attrs(
            {
                **_typed_attrs(op_def, texts),
                "T": copy.output_types[0],
                "device_name": copy.assigned_device or copy.device,
                "tensor_name": tensor_name,
                "debug_urls": list(watch.debug_urls),
            }
        )
        op_def.check_attrs(attrs)
    except (NotFoundError, InvalidArgumentError) as error:
        if watch.tolerate_debug_op_creation_failures:
            return None
        raise FailedPreconditionError(
            f"Failed to create debug node {spec} for tensor {tensor_name}, due to: {error.message}"
        ) from error
    node_name = _free_name(graph, f"__dbg_{tensor_name.replace(':', '_')}_{index}_{name}")
    return graph.add_node(node_name, op_def, [(copy, 0)], attrs=attrs, device=copy.device)


def _typed_attrs(op_def: Any, texts: Mapping[str, str]) -> dict[str, Any]:
    """Convert attr values from text to the types that the op declares."""
    typed: dict[str, Any] = {}
    for name, text in texts.items():
        kind = op_def.attr(name).type
        if kind == "bool":
            typed[name] = text.lower() in ("true", "1")
        elif kind in ("float", "int"):
            try:
                typed[name] = float(text) if kind == "float" else int(text)
            except ValueError:
                raise InvalidArgumentError(
                    f"debug op {op_def.name}: {name}={text!r} is not a valid {kind}"
                ) from None
        else:
            typed[name] = text
    return typed


def _free_name(graph: Graph, name: str) -> str:
    while graph.has_node(name):
        name += "_"
    return name
