"""Make the `MetaGraphDef` message of a graph: its nodes, variables and collections.

Semantics: tensorflow/python/framework/meta_graph.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill import proto
from graphmill.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


def meta_graph_of(
    graph: Any,
    collection_list: Collection[str] | None = None,
    *,
    graph_def: Any = None,
    meta_info_def: Any = None,
    clear_devices: bool = False,
    strip_default_attrs: bool = False,
) -> Any:
    """Return a graph and its variables as a `MetaGraphDef` message.

    Args:
        graph: the graph.
        collection_list: the keys of the collections that it has; by default all.
        graph_def: the `GraphDef` that it has instead of the graph's.
        meta_info_def: its `MetaInfoDef`, to which the ops of the graph are added if it has none.
        clear_devices: whether its nodes have no devices.
        strip_default_attrs: whether attrs with the default of their op are left out.

    Raises:
        InvalidArgumentError: a collection has an item that a MetaGraph cannot hold.
    """
    message = proto.MetaGraphDef()
    message.graph_def.CopyFrom(graph.as_graph_def() if graph_def is None else graph_def)
    if meta_info_def is not None:
        message.meta_info_def.CopyFrom(meta_info_def)
    if clear_devices:
        for node in message.graph_def.node:
            node.device = ""
    if strip_default_attrs:
        _strip_default_attrs(message.graph_def, graph.ops)
        message.meta_info_def.stripped_default_attrs = True
    if not message.meta_info_def.HasField("stripped_op_list"):
        for op in sorted({node.op for node in _all_nodes(message.graph_def)}):
            if op in graph.ops:
                message.meta_info_def.stripped_op_list.op.append(graph.ops.get(op).to_proto())
    for key, values in _collections(graph).items():
        if collection_list is None or key in collection_list:
            _add_collection(message.collection_def[key], key, values)
    return message


def serialized_message(message: Any, *, as_text: bool) -> bytes:
    """Return the content of a file with a message."""
    if not as_text:
        content: bytes = message.SerializeToString()
        return content
    from google.protobuf import text_format

    return text_format.MessageToString(message).encode()


def _all_nodes(graph_def: Any) -> list[Any]:
    """Return the nodes of a graph and of its functions."""
    functions = (node for function in graph_def.library.function for node in function.node_def)
    return [*graph_def.node, *functions]


def _strip_default_attrs(graph_def: Any, ops: Any) -> None:
    """Remove attrs that a consumer adds when it reads the graph."""
    for node in _all_nodes(graph_def):
        if node.op not in ops:
            continue
        for attr in ops.get(node.op).to_proto().attr:
            if attr.HasField("default_value") and node.attr.get(attr.name) == attr.default_value:
                del node.attr[attr.name]


def _collections(graph: Any) -> dict[str, Sequence[Any]]:
    """Return the collections of a graph."""
    return {key: graph.get_collection(key) for key in graph.collections}


def _add_collection(collection: Any, key: str, values: Sequence[Any]) -> None:
    """Write the values of a collection, which have one kind."""
    for value in values:
        if hasattr(value, "to_proto"):  # a variable or a queue runner
            collection.bytes_list.value.append(value.to_proto().SerializeToString())
        elif isinstance(value, bytes):
            collection.bytes_list.value.append(value)
        elif isinstance(value, bool | int):
            collection.int64_list.value.append(value)
        elif isinstance(value, float):
            collection.float_list.value.append(value)
        elif hasattr(value, "name"):
            collection.node_list.value.append(value.name)
        elif hasattr(value, "TypeName"):
            collection.any_list.value.append(value)
        else:
            raise InvalidArgumentError(
                f"collection {key!r} has a {type(value).__name__}, which a MetaGraph cannot hold"
            )
