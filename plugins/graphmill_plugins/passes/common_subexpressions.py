"""Merge nodes that compute the same values.

Semantics: `tensorflow/core/graph/optimizer_cse.cc`: two nodes are equal if their ops, attrs,
inputs, control inputs and devices are equal. Large constants are not compared. Nodes are not merged
if their op or their kernel has effects: each call must run, and their results may differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import OpError
from graphmill.spi import TensorAttr, topological_order
from graphmill.spi.graphs import AttrsCache
from graphmill.spi.passes import is_overridden
from graphmill_plugins.passes.options import is_enabled
from graphmill_plugins.passes.purity import has_pure_op, is_pure

if TYPE_CHECKING:
    from collections.abc import Hashable

    from graphmill.spi import Graph, Node
    from graphmill.spi.passes import PassOptions

_MAX_CONSTANT: Final = 16  # elements


def merge(graph: Graph, options: PassOptions) -> None:
    """Redirect the consumers of duplicate nodes to the first of them."""
    if not is_enabled("common_subexpressions", options.config):
        return
    first: dict[Hashable, Node] = {}
    key_of, merged = _Keys(), []
    comparable: AttrsCache[bool] = AttrsCache()
    for node in topological_order(graph):
        is_comparable = comparable.find(node)
        if is_comparable is None:
            is_comparable = comparable.store(node, _is_comparable(node))
        if not is_comparable:
            continue
        original = first.setdefault(key_of(node), node)
        # The kernel, which equal nodes share, is looked up only if there is a duplicate.
        if original is node or not is_pure(original, options):
            continue
        if node.sources != original.sources and is_overridden(node, options):
            continue  # its op is commutative, but its kernel may not be
        for output in range(node.num_outputs):
            graph.redirect(node, output, original, output)
        for edge in [edge for edge in node.out_edges if edge.is_control]:
            graph.remove_control_edge(edge)
            graph.add_control_edge(original, edge.dst)
        merged.append(node)
    graph.withdraw(merged)


class _Keys:
    """Makes the keys of nodes, which are equal if the nodes compute the same."""

    def __init__(self) -> None:
        self._attrs: dict[int, Hashable] = {}  # by the id of attrs, which nodes share

    def __call__(self, node: Node) -> Hashable:
        """Return the key of a node.

        Raises:
            OpError: the content of a tensor does not match its shape.
        """
        attrs = self._attrs.get(id(node.attrs))
        if attrs is None:
            attrs = self._attrs[id(node.attrs)] = _attrs_key(node)
        inputs = [(edge.src.id, edge.src_output) for edge in node.in_edges]
        if node.op_def.is_commutative:
            inputs.sort()
        control = frozenset([edge.src.id for edge in node.control_in_edges])
        return node.op, node.assigned_device or node.device, tuple(inputs), control, attrs


def _attrs_key(node: Node) -> Hashable:
    try:
        return frozenset((name, _value(value)) for name, value in node.attrs.items())
    except OpError as error:
        error.locate(node=node.name, op_type=node.op)
        raise


def _value(value: Any) -> Hashable:
    if isinstance(value, TensorAttr):
        content = value.numpy()
        data = tuple(content.ravel().tolist()) if content.dtype == object else content.tobytes()
        return value.dtype, value.shape, data
    # 1, 1.0 and True are equal in Python, but are not equal attrs.
    return type(value), value


def _is_comparable(node: Node) -> bool:
    """Return whether a node may be merged with an equal one, as its op and attrs tell."""
    return bool(node.output_types) and has_pure_op(node) and not _has_large_tensor(node)


def _has_large_tensor(node: Node) -> bool:
    for value in node.attrs.values():
        if isinstance(value, TensorAttr):
            size = 1
            for dim in value.shape:
                size *= dim
            if size > _MAX_CONSTANT:
                return True
    return False
