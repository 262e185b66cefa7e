"""Add control dependencies: `group`, `tuple`, `with_dependencies`.

Semantics: tensorflow/python/ops/control_flow_ops.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError
from graphmill.graph.infer_graph import infer_graph
from graphmill.graph.node import Node
from graphmill.graph.structures import flatten
from graphmill.graph.tensor import Tensor
from graphmill.ops import array, control_flow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphmill.graph.builder import Graph


def group(*inputs: Any, name: str | None = None) -> Node:
    """Add a `NoOp` that runs after all of the given nodes.

        a, b = graphmill.Variable(1), graphmill.Variable(2)
        session.run(graphmill.group(a.initializer, b.initializer))
        print(session.run([a, b]))  # [np.int32(1), np.int32(2)]

    If the nodes are on several devices, a `NoOp` on each device comes in between.

    Args:
        inputs: tensors, nodes, or structures of these.
        name: name of the node.

    Raises:
        InvalidArgumentError: an input is neither a tensor nor a node.
    """
    nodes = [_node_of(item) for item in flatten(inputs)]
    graph = infer_graph(*nodes)
    with graph.as_default(), graph.name_scope(name or "group_deps") as scope:
        by_device: dict[str, list[Node]] = {}
        for node in nodes:
            by_device.setdefault(node.device, []).append(node)
        if len(by_device) == 1:
            ((device, members),) = by_device.items()
            return _gather(graph, members, device, scope)
        parts = [
            _gather(graph, members, device, None) for device, members in sorted(by_device.items())
        ]
        return _gather(graph, parts, "", scope)


def tuple(  # noqa: A001 - TensorFlow's name
    tensors: Iterable[Any],
    name: str | None = None,
    control_inputs: Sequence[Tensor | Node] | None = None,
) -> list[Any]:
    """Return tensors that become available only when all of them have been computed.

    Args:
        tensors: tensors, values, nodes, or None, which stays None.
        name: name of the scope of the added nodes.
        control_inputs: further tensors and nodes to wait for.

    Returns:
        A tensor for each tensor, a node for each node.

    Raises:
        InvalidArgumentError: there is nothing to wait for, or a control input is neither a tensor
            nor a node.
    """
    items = list(tensors)
    graph = infer_graph(items, list(control_inputs or ()))
    with graph.as_default(), graph.name_scope(name or "tuple"):
        items = [
            item if item is None or isinstance(item, Node) else graph.convert(item)
            for item in items
        ]
        awaited = [item for item in (*items, *(control_inputs or ())) if item is not None]
        gates = sorted({_node_of(item) for item in awaited}, key=lambda node: node.id)
        if not gates:
            raise InvalidArgumentError("tuple got no tensors; at least one is needed")
        gate = group(*gates)
        return [_after(gate, item) for item in items]


def with_dependencies(
    dependencies: Iterable[Tensor | Node], output: Any, name: str | None = None
) -> Tensor:
    """Return a copy of a tensor that becomes available only after other nodes are done.

    Args:
        dependencies: the nodes, or their output tensors.
        output: the tensor.
        name: name of the node.

    Raises:
        InvalidArgumentError: a dependency is neither a tensor nor a node.
    """
    nodes = [_node_of(item) for item in dependencies]
    graph = infer_graph(output, *nodes)
    tensor = graph.convert(output)
    with (
        graph.name_scope(name or "control_dependency") as scope,
        graph.colocate_with(tensor),
        graph.control_dependencies(nodes),
    ):
        identity = array.ref_identity if tensor.dtype.is_ref else array.identity
        return identity(tensor, name=scope)


def _gather(graph: Graph, nodes: list[Node], device: str, name: str | None) -> Node:
    with graph.control_dependencies(nodes), graph.device(device):
        return control_flow.no_op(name=name)


def _after(gate: Node, item: Any) -> Any:
    if item is None:
        return None
    if isinstance(item, Tensor):
        return with_dependencies([gate], item)
    with gate.graph.control_dependencies([gate]):  # type: ignore[attr-defined]
        return group(item)


def _node_of(item: Any) -> Node:
    if isinstance(item, Tensor):
        return item.op
    if isinstance(item, Node):
        return item
    raise InvalidArgumentError(
        f"expected a tensor or a node to wait for, got {item!r} of type {type(item).__name__}"
    )
