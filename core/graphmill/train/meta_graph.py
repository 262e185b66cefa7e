"""Import and export MetaGraphs: a graph with its variables, collections, and saver.

Semantics: tensorflow/python/framework/meta_graph.py, tensorflow/python/training/saver.py.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.message import DecodeError

from graphmill import files, proto
from graphmill.deprecations import warn_renamed
from graphmill.errors import InvalidArgumentError
from graphmill.graph.formats.import_export import extend_graph
from graphmill.graph.infer_graph import infer_graph
from graphmill.graph.variable import Variable
from graphmill.train.checkpoints.saver import Saver
from graphmill.train.input_map import map_inputs
from graphmill.train.meta_graph_export import meta_graph_of, serialized_message
from graphmill.train.queue_runner import queue_runners_of
from graphmill.train.scoped_meta_graph import scoped_meta_graph

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Mapping

    from graphmill.graph.builder import Graph

    Path = str | os.PathLike[str]

_VARIABLES: Final = "variables"
_TRAINABLE: Final = "trainable_variables"
_OF_VARIABLES: Final = ("local_variables", "model_variables", "moving_average_variables")
_ELSEWHERE: Final = (_VARIABLES, _TRAINABLE, "queue_runners")


def import_meta_graph(
    meta_graph_or_file: Any,
    clear_devices: bool = False,
    import_scope: str | None = None,
    *,
    graph: Graph | None = None,
    input_map: Mapping[str, Any] | None = None,
) -> Saver | None:
    """Add the nodes, variables and collections of a MetaGraph to a graph.

    Afterwards `Graph.variables`, `Graph.queue_runners`, `Graph.summaries` and
    `Graph.get_collection` have what the program that wrote it had there, so that its
    training can continue.

    Args:
        meta_graph_or_file: a `MetaGraphDef` message, or the path of a `.meta` file.
        clear_devices: whether to forget the devices of its nodes.
        import_scope: a name scope to put its nodes in; a name in use is made unique. Checkpoints
            of the returned saver have the names without the scope.
        graph: the graph; by default the default graph.
        input_map: tensors of the graph, or values, that its nodes read instead of tensors of the
            MetaGraph, by the names of these. The nodes that are replaced are added, too.

    Returns:
        A saver with the MetaGraph's own nodes; None if it has none.

    Raises:
        InvalidArgumentError: it is not a MetaGraph, a name is in use, a collection is damaged,
            `import_scope` is not a text, or no node reads a tensor of `input_map`.
        NotFoundError: the file does not exist, or an op is unknown.
    """
    if not isinstance(import_scope, str | None):
        raise InvalidArgumentError(
            f"import_scope={import_scope!r} is of type {type(import_scope).__name__}; expected the "
            "name of a scope, or None"
        )
    target = infer_graph() if graph is None else graph
    message = _as_message(meta_graph_or_file)
    scope = ""
    if import_scope:
        with target.name_scope(import_scope) as scope:
            message = scoped_meta_graph(message, scope)
    definition = message.graph_def
    if clear_devices or input_map:
        definition = proto.GraphDef()
        definition.CopyFrom(message.graph_def)
    if clear_devices:
        for node in definition.node:
            node.device = ""
    if input_map:
        map_inputs(definition, input_map, target, scope)
    runners = queue_runners_of(message)
    extend_graph(target, definition, target.ops)
    _add_variables(target, message)
    target.queue_runners += runners
    for key, collection in message.collection_def.items():
        if key not in _ELSEWHERE:
            known = target.summaries if key == "summaries" else ()
            items = _items(target, key, collection)
            target.get_collection_ref(key).extend(item for item in items if item not in known)
    if not message.HasField("saver_def"):
        return None
    return Saver(saver_def=message.saver_def, graph=target)


def export_meta_graph(
    filename: Path | None = None,
    meta_info_def: Any = None,
    graph_def: Any = None,
    saver_def: Any = None,
    collection_list: Collection[str] | None = None,
    as_text: bool = False,
    graph: Graph | None = None,
    *,
    clear_devices: bool = False,
    strip_default_attrs: bool = False,
    saver: Saver | None = None,
) -> Any:
    """Return a graph with its variables and collections as a `MetaGraphDef` message.

    Args:
        filename: the file to write it to; None for none.
        meta_info_def: the `MetaInfoDef` that it has. A graph is taken as `graph`, with a warning
            for one version.
        graph_def: the `GraphDef` that it has; by default that of the graph.
        saver_def: the `SaverDef` that it has; by default that of `saver`, if there is one.
        collection_list: the keys of the collections that it has; by default all.
        as_text: whether the file is text.
        graph: the graph; by default the default graph.
        clear_devices: whether its nodes have no devices.
        strip_default_attrs: whether attrs with the default of their op are left out, so that a
            consumer that does not know them yet can read the graph.
        saver: the saver whose nodes restore the variables; by default none.

    Raises:
        InvalidArgumentError: both `saver` and `saver_def` are given, or a collection has an item
            that a MetaGraph cannot hold.
        OpError: the file cannot be written.
    """
    if hasattr(meta_info_def, "as_graph_def"):
        warn_renamed("the second argument of export_meta_graph, a graph,", "graph")
        meta_info_def, graph = None, meta_info_def
    if saver is not None and saver_def is not None:
        raise InvalidArgumentError("give either saver or saver_def")
    message = meta_graph_of(
        infer_graph() if graph is None else graph,
        collection_list,
        graph_def=graph_def,
        meta_info_def=meta_info_def,
        clear_devices=clear_devices,
        strip_default_attrs=strip_default_attrs,
    )
    if saver is not None:
        saver_def = saver.as_saver_def()
    if saver_def is not None:
        message.saver_def.CopyFrom(saver_def)
    if filename is not None:
        files.write(files.as_path(filename), serialized_message(message, as_text=as_text))
    return message


def write_graph(graph_or_graph_def: Any, logdir: Path, name: str, as_text: bool = True) -> str:
    """Write a graph to a file, and return its path.

    Args:
        graph_or_graph_def: a graph, or a `GraphDef` message.
        logdir: the folder, which is created if it is missing.
        name: the name of the file.
        as_text: whether the file is text.

    Raises:
        OpError: the file cannot be written.
    """
    is_graph = hasattr(graph_or_graph_def, "as_graph_def")
    message = graph_or_graph_def.as_graph_def() if is_graph else graph_or_graph_def
    path = files.join(files.as_path(logdir), name)
    files.write(path, serialized_message(message, as_text=as_text))
    return path


def _as_message(source: Any) -> Any:
    if isinstance(source, proto.MetaGraphDef):
        return source
    from graphmill.graph.formats.model_file import open_model
    from graphmill.graph.formats.model_format import Encoding, Kind

    path = files.as_path(source)
    with closing(open_model(path)) as opened:  # a text that cannot be parsed is refused here
        if opened.kind is not Kind.META_GRAPH_DEF:
            raise InvalidArgumentError(
                f"{path} is a {opened.kind.value}, expected a MetaGraphDef (.meta)"
            )
        encoding = opened.encoding
    content = files.read_bytes(path)
    if encoding is Encoding.BINARY:
        try:
            return proto.MetaGraphDef.FromString(content)
        except DecodeError as error:
            raise InvalidArgumentError(
                f"{path} has {len(content)} bytes and is truncated or damaged: {error}"
            ) from error
    from google.protobuf import json_format, text_format

    parse = json_format.Parse if encoding is Encoding.JSON else text_format.Parse
    return parse(content.decode("utf-8"), proto.MetaGraphDef())


def _add_variables(graph: Graph, message: Any) -> None:
    """Create the variables; one that is in two collections is one object."""
    trainable = {
        definition.variable_name
        for definition in _variable_defs(message.collection_def[_TRAINABLE], _TRAINABLE)
    } if _TRAINABLE in message.collection_def else set()  # fmt: skip
    if _VARIABLES not in message.collection_def:
        return
    for definition in _variable_defs(message.collection_def[_VARIABLES], _VARIABLES):
        definition.trainable = definition.variable_name in trainable
        graph.variables.append(Variable.from_proto(definition, graph))


def _variable_defs(collection: Any, key: str) -> list[Any]:
    try:
        return [proto.VariableDef.FromString(item) for item in collection.bytes_list.value]
    except DecodeError as error:
        raise InvalidArgumentError(f"collection {key!r} is damaged: {error}") from error


def _items(graph: Graph, key: str, collection: Any) -> list[Any]:
    """Return the items of a collection: nodes, tensors, variables, numbers or bytes."""
    if key in _OF_VARIABLES:
        by_handle = {variable.handle.name: variable for variable in graph.variables}
        return [
            by_handle.get(definition.variable_name) or Variable.from_proto(definition, graph)
            for definition in _variable_defs(collection, key)
        ]
    kind = collection.WhichOneof("kind")
    if kind == "node_list":
        return [
            graph.get_tensor_by_name(name) if ":" in name else graph.get_operation_by_name(name)
            for name in collection.node_list.value
        ]
    return list(getattr(collection, kind).value) if kind else []
