"""Read model files: GraphDef, MetaGraphDef and SavedModel, in binary, text and JSON.

Binary files are read lazily: the graph is parsed without its large constants, which stay in
the file as `StoredTensor`s until they are used (see `graph/formats/large_tensors.py`). So a file
may exceed protobuf's limit of 2 GB, as long as the rest without large constants does not.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from graphmill import errors, files, proto
from graphmill.graph.formats.large_tensors import CutTensor, Cutter, TensorKey, meta_graph_ranges
from graphmill.graph.formats.model_format import Encoding, Kind, ModelFormat, check_depth, detect
from graphmill.graph.formats.stored_tensor import StoredTensor
from graphmill.proto.wire import LENGTH, iterate_fields

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from graphmill.proto.graph_pb2 import GraphDef
    from graphmill.proto.meta_graph_pb2 import MetaGraphDef
    from graphmill.proto.wire import Buffer

_SAVED_MODEL_PB = "saved_model.pb"
_SAVED_MODEL_PBTXT = "saved_model.pbtxt"
_SAVED_MODEL_CPB = "saved_model.cpb"
_META, _INDEX = ".meta", ".index"
_MAX_MESSAGE_BYTES = (1 << 31) - 1
_META_INFO_DEF = 1

# In TensorFlow's text form, types inside `Any` have the package `tensorflow`.
_TEXT_ANY = r"(?m)^(\s*\[type\.googleapis\.com/)tensorflow\.(?=\w+\]\s*[{<])"


class LoadedGraph(NamedTuple):
    """A graph as read from a file.

    Attributes:
        graph_def: the graph; constants that are in `tensors` have a dtype and shape but no
            content here.
        tensors: the large constants, by (function name or "", node name, attr name).
    """

    graph_def: GraphDef
    tensors: Mapping[TensorKey, StoredTensor] = MappingProxyType({})

    def close(self) -> None:
        """Release the file at once, even if some tensors are still in use.

        Tensors that have not been read yet can then no longer be read.
        """
        for tensor in self.tensors.values():
            tensor.close()

    def whole(self) -> GraphDef:
        """Return a copy of the graph that includes all contents (it may be large)."""
        complete = proto.GraphDef()
        complete.CopyFrom(self.graph_def)
        nodes = {"": {node.name: node for node in complete.node}}
        for function in complete.library.function:
            nodes[function.signature.name] = {node.name: node for node in function.node_def}
        for (function_name, node, attr), tensor in self.tensors.items():
            value = nodes[function_name][node].attr[attr].tensor
            value.tensor_content = tensor.content()
        return complete


class LoadedMetaGraph(NamedTuple):
    """A meta graph as read from a file; its `graph_def` lacks the large constants.

    Attributes:
        meta_graph_def: collections, signatures, saver and graph.
        tensors: the large constants, as in `LoadedGraph`.
    """

    meta_graph_def: MetaGraphDef
    tensors: Mapping[TensorKey, StoredTensor] = MappingProxyType({})

    @property
    def graph(self) -> LoadedGraph:
        """The graph alone."""
        return LoadedGraph(self.meta_graph_def.graph_def, self.tensors)

    @property
    def tags(self) -> frozenset[str]:
        """The tags that identify the meta graph in a SavedModel."""
        return frozenset(self.meta_graph_def.meta_info_def.tags)


class ModelFile:
    """An open model file; its contents are parsed on demand.

    Attributes:
        path: the path of the file; for a SavedModel's folder, of the file in it.
        kind: the message in it.
        encoding: binary, text or JSON.
    """

    def __init__(self, reader: files.Reader) -> None:
        self.path = reader.path
        self._reader = reader
        with self._buffer() as buffer:
            model_format: ModelFormat = detect(buffer, self.path)
            self.kind = model_format.kind
            self.encoding = model_format.encoding
            self._message = (
                None if self._is_binary else _parse_text(buffer, model_format, self.path)
            )

    @property
    def _is_binary(self) -> bool:
        return self.encoding is Encoding.BINARY

    def tag_sets(self) -> list[frozenset[str]]:
        """Return the tags of each meta graph, in the order of the file.

        Raises:
            InvalidArgumentError: the file holds a bare graph.
        """
        if self.kind is Kind.GRAPH_DEF:
            raise self._wrong_kind("meta graphs")
        if self._message is not None:
            return [frozenset(meta.meta_info_def.tags) for meta in self._meta_graphs()]
        with self._buffer() as buffer, self._damage():
            places = self._places(buffer)
            return [_tags(buffer, start, end) for start, end in places]

    def meta_graph(self, index: int = 0) -> LoadedMetaGraph:
        """Return the meta graph at `index` (in the order of `tag_sets`).

        Raises:
            InvalidArgumentError: the file holds a bare graph, or has no meta graph at that index.
            DataLossError: the file is damaged.
        """
        if self.kind is Kind.GRAPH_DEF:
            raise self._wrong_kind("meta graphs")
        if self._message is not None:
            return LoadedMetaGraph(self._pick(self._meta_graphs(), index))
        with self._buffer() as buffer, self._damage():
            start, end = self._pick(self._places(buffer), index)
            cutter = Cutter(buffer)
            light = cutter.meta_graph_def(start, end)
            message = self._parse(proto.MetaGraphDef, buffer[start:end] if light is None else light)
        return LoadedMetaGraph(message, self._stored(cutter.tensors))

    def graph(self) -> LoadedGraph:
        """Return the graph of a GraphDef or MetaGraphDef file, or of a SavedModel that has one.

        Raises:
            InvalidArgumentError: the SavedModel has several meta graphs.
            DataLossError: the file is damaged.
        """
        if self.kind is not Kind.GRAPH_DEF:
            count = len(self.tag_sets())
            if count != 1:
                raise errors.InvalidArgumentError(
                    f"{self.path} has {count} meta graphs; choose one with graphmill."
                    "saved_model.load(path, tags=…)"
                )
            return self.meta_graph().graph
        if self._message is not None:
            return LoadedGraph(self._message)
        with self._buffer() as buffer, self._damage():
            cutter = Cutter(buffer)
            light = cutter.graph_def(0, len(buffer))
            message = self._parse(proto.GraphDef, buffer if light is None else light)
        return LoadedGraph(message, self._stored(cutter.tensors))

    def close(self) -> None:
        """Release the file; tensors that have not been read yet can no longer be read."""
        self._reader.close()

    def _meta_graphs(self) -> list[MetaGraphDef]:
        message: Any = self._message
        return list(message.meta_graphs) if self.kind is Kind.SAVED_MODEL else [message]

    def _places(self, buffer: Buffer) -> list[tuple[int, int]]:
        if self.kind is Kind.META_GRAPH_DEF:
            return [(0, len(buffer))]
        return meta_graph_ranges(buffer, 0, len(buffer))

    def _pick(self, meta_graphs: list[Any], index: int) -> Any:
        if not 0 <= index < len(meta_graphs):
            raise errors.InvalidArgumentError(
                f"{self.path} has {len(meta_graphs)} meta graphs; there is no index {index}"
            )
        return meta_graphs[index]

    def _stored(self, cut: Mapping[TensorKey, CutTensor]) -> dict[TensorKey, StoredTensor]:
        return {
            key: StoredTensor(self._reader, place.offset, place.dtype.as_numpy_dtype, place.shape)
            for key, place in cut.items()
        }

    def _parse(self, message: type[Any], content: Buffer) -> Any:
        from google.protobuf.message import DecodeError

        if len(content) > _MAX_MESSAGE_BYTES:
            raise errors.ResourceExhaustedError(
                f"{self.path}: {len(content)} bytes are left without the large constants, but a "
                "message can have at most 2 GB; keep the weights in variables (a SavedModel)"
            )
        try:
            return message.FromString(content)
        except DecodeError as error:
            raise errors.DataLossError(str(error)) from error

    @contextmanager
    def _buffer(self) -> Iterator[memoryview]:
        """Yield the whole content; a local file is mapped into memory, others are read."""
        reader = self._reader
        if isinstance(reader, files.BytesReader):
            yield reader.view
        elif isinstance(reader, files.LocalReader) and reader.size:
            # Do not close it here: a propagating error may hold views. It is freed with them.
            yield memoryview(reader.map())
        else:
            content = bytearray(reader.size)
            reader.read_into(0, memoryview(content))
            yield memoryview(content)

    @contextmanager
    def _damage(self) -> Iterator[None]:
        """Convert an error in the bytes to one that names the file and suggests a cause."""
        try:
            yield
        except errors.DataLossError as error:
            raise errors.DataLossError(
                f"{self.path} is truncated or damaged: it starts as a {self.kind.value}, but "
                f"{error.message}; compare its size ({self._reader.size} bytes) with the original's"
            ) from error

    def _wrong_kind(self, what: str) -> errors.InvalidArgumentError:
        return errors.InvalidArgumentError(
            f"{self.path} is a {self.kind.value} and has no {what}; load it as a graph: "
            "graphmill.Session(graph=path)"
        )


def open_model(source: str | os.PathLike[str] | bytes | memoryview) -> ModelFile:
    """Open a model: the path or URL of a file or of a SavedModel's folder, or its bytes.

    Raises:
        NotFoundError: there is no such file, or no SavedModel in the folder.
        InvalidArgumentError: it is not a model; the message says what it looks like.
        DataLossError: it is a damaged model.
    """
    if isinstance(source, bytes | memoryview):
        return ModelFile(files.BytesReader(source))
    path = files.as_path(source)
    if files.is_dir(path):
        path = _saved_model_file(path)
    try:
        reader = files.open_reader(path)
    except errors.NotFoundError as error:
        raise _no_file(path) from error
    try:
        return ModelFile(reader)
    except errors.OpError:
        reader.close()
        raise


def load_graph(source: str | os.PathLike[str] | bytes | memoryview) -> LoadedGraph:
    """Return the graph of a GraphDef or MetaGraphDef, given by path, URL or bytes.

    Raises:
        InvalidArgumentError: it is not a model, or a SavedModel, whose variables must be loaded.
        NotFoundError, DataLossError: as for `open_model`.
    """
    model = open_model(source)
    if model.kind is Kind.SAVED_MODEL:
        model.close()
        raise errors.InvalidArgumentError(
            f"{model.path} is a SavedModel: a graph with variables; load both with "
            "graphmill.saved_model.load(path)"
        )
    loaded = model.graph()
    if not loaded.tensors:
        model.close()  # nothing remains to be read
    return loaded


def _saved_model_file(folder: str) -> str:
    for name in (_SAVED_MODEL_PB, _SAVED_MODEL_PBTXT):
        path = files.join(folder, name)
        if files.exists(path):
            return path
    names = files.list_dir(folder)
    if _SAVED_MODEL_CPB in names:
        raise errors.UnimplementedError(
            f"{folder} holds a SavedModel in chunks ({_SAVED_MODEL_CPB}), which is not read; "
            "export it again without experimental_image_format"
        )
    contents = ", ".join(names[:8]) + (" …" if len(names) > 8 else "") if names else "nothing"
    error = errors.NotFoundError(
        f"{folder} has neither {_SAVED_MODEL_PB} nor {_SAVED_MODEL_PBTXT}; there is: {contents}"
    )
    for advice in _advice(folder, names):
        error.add_note(f"try: {advice}")
    raise error


def _advice(folder: str, names: list[str]) -> Iterator[str]:
    """Yield descriptions of what a folder that is not a SavedModel holds instead."""
    versions = [
        name
        for name in names
        if name.isdecimal() and files.exists(files.join(folder, name, _SAVED_MODEL_PB))
    ]
    if versions:
        newest = files.join(folder, max(versions, key=int))
        yield f"{newest}, the newest of the versions in this folder"
    graphs = [name for name in names if name.endswith(_META)]
    if graphs:
        latest = max(graphs, key=lambda name: (len(name), name))
        yield f"{files.join(folder, latest)}, the graph of a checkpoint of TensorFlow 1"
    indexes = [name for name in names if name.endswith(_INDEX)]
    if indexes:
        yield f"`graphmill show {folder}` for the variables of its checkpoint"


def _no_file(path: str) -> errors.NotFoundError:
    """Return the error for a path without a file: it may be the prefix of a checkpoint."""
    if not files.exists(path + _INDEX):
        return errors.NotFoundError(f"there is no file {path}")
    error = errors.NotFoundError(
        f"{path} is the prefix of a checkpoint, which has variables and no graph"
    )
    if files.exists(path + _META):
        error.add_note(f"try: {path}{_META}, its graph")
    return error


def _tags(buffer: Buffer, start: int, end: int) -> frozenset[str]:
    """Return the tags of the meta graph at `buffer[start:end]`."""
    info = proto.MetaGraphDef.MetaInfoDef()
    for part in iterate_fields(buffer, start, end):
        if part.number == _META_INFO_DEF and part.wire_type == LENGTH:
            _merge(info, bytes(buffer[part.start : part.end]))
    return frozenset(info.tags)


def _merge(message: Any, content: bytes) -> None:
    from google.protobuf.message import DecodeError

    try:
        message.MergeFromString(content)
    except DecodeError as error:
        raise errors.DataLossError(str(error)) from error


def _parse_text(buffer: Buffer, model_format: ModelFormat, path: str) -> Any:
    """Return the message of a text or JSON file."""
    try:
        text = bytes(buffer).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise errors.DataLossError(f"{path} starts as text but is not UTF-8: {error}") from error
    check_depth(text, model_format.encoding, path)
    message = model_format.kind.message()
    if model_format.encoding is Encoding.JSON:
        _merge_json(text, message, path)
    else:
        _merge_text(text, message, path)
    return message


def _merge_text(text: str, message: Any, path: str) -> None:
    from google.protobuf import text_format

    try:
        text_format.Parse(re.sub(_TEXT_ANY, r"\1graphmill.", text), message)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise errors.InvalidArgumentError(
            f"{path} is not a {message.DESCRIPTOR.name} in text form: {error}"
        ) from error


def _merge_json(text: str, message: Any, path: str) -> None:
    from google.protobuf import json_format

    try:
        json_format.ParseDict(json.loads(text), message)
    except (json_format.ParseError, json.JSONDecodeError) as error:
        raise errors.InvalidArgumentError(
            f"{path} is not a {message.DESCRIPTOR.name} in JSON form: {error}"
        ) from error
