"""Move a MetaGraph into a name scope: its nodes, and all names by which it refers to them.

Semantics: tensorflow/python/framework/meta_graph.py (import_scoped_meta_graph), and
AddPrefixToNodeDef of tensorflow/core/common_runtime/graph_constructor.cc. Names of functions, of
tensors in checkpoints and of resources (`shared_name`) stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from google.protobuf.message import DecodeError

from graphmill import proto
from graphmill.errors import InvalidArgumentError

if TYPE_CHECKING:
    from google.protobuf.message import Message

_COLOCATION: Final = b"loc:@"
_DEFINITIONS: Final = {
    **dict.fromkeys(
        (
            "variables",
            "trainable_variables",
            "local_variables",
            "model_variables",
            "moving_average_variables",
        ),
        "VariableDef",
    ),
    "queue_runners": "QueueRunnerDef",
    "cond_context": "CondContextDef",
    "while_context": "WhileContextDef",
}
"""The messages in collections of bytes, all of whose strings are names of nodes or tensors."""
_NAMES_OF_FILES: Final = "save_slice_info_def"
"""The field of a `VariableDef` with the variable's name in a checkpoint."""


def scoped_meta_graph(meta_graph: Any, scope: str) -> Any:
    """Return a copy of a `MetaGraphDef` whose nodes are in a name scope.

    Args:
        meta_graph: the message.
        scope: the scope, with a slash at its end.

    Raises:
        InvalidArgumentError: a collection is damaged.
    """
    scoped = proto.MetaGraphDef()
    scoped.CopyFrom(meta_graph)
    for node in scoped.graph_def.node:
        _move_node(node, scope)
    for key, collection in scoped.collection_def.items():
        _move_collection(key, collection, scope)
    if scoped.HasField("saver_def"):
        _move_names(scoped.saver_def, scope)
    return scoped


def scoped_saver_def(saver_def: Any, scope: str) -> Any:
    """Return a copy of a `SaverDef` whose nodes are in a name scope, which ends with a slash."""
    scoped = proto.SaverDef()
    scoped.CopyFrom(saver_def)
    _move_names(scoped, scope)
    return scoped


def _move_node(node: Any, scope: str) -> None:
    node.name = scope + node.name
    node.input[:] = [_moved(name, scope) for name in node.input]
    colocated = node.attr["_class"].list.s if "_class" in node.attr else []
    colocated[:] = [
        _COLOCATION + scope.encode() + name.removeprefix(_COLOCATION)
        if name.startswith(_COLOCATION)
        else name
        for name in colocated
    ]
    if "frame_name" in node.attr:  # each copy of a loop is a loop of its own
        node.attr["frame_name"].s = scope.encode() + node.attr["frame_name"].s


def _move_collection(key: str, collection: Any, scope: str) -> None:
    names = collection.node_list.value if collection.WhichOneof("kind") == "node_list" else []
    names[:] = [_moved(name, scope) for name in names]
    if key not in _DEFINITIONS:
        return
    kind = getattr(proto, _DEFINITIONS[key])
    for position, content in enumerate(collection.bytes_list.value):
        try:
            definition = kind.FromString(content)
        except DecodeError as error:
            raise InvalidArgumentError(f"collection {key!r} is damaged: {error}") from error
        _move_names(definition, scope)
        collection.bytes_list.value[position] = definition.SerializeToString()


def _move_names(message: Message, scope: str) -> None:
    """Move all names in a message and in the messages in it."""
    for field, value in message.ListFields():
        if field.name == _NAMES_OF_FILES:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            moved = {_moved(key, scope): _moved(name, scope) for key, name in value.items()}
            message.ClearField(field.name)
            getattr(message, field.name).update(moved)
        elif field.message_type is not None:
            for item in value if hasattr(value, "__len__") else (value,):
                _move_names(item, scope)
        elif isinstance(value, str):
            setattr(message, field.name, _moved(value, scope))
        elif field.type == field.TYPE_STRING:
            value[:] = [_moved(name, scope) for name in value]


def _moved(name: str, scope: str) -> str:
    return f"^{scope}{name[1:]}" if name.startswith("^") else scope + name
