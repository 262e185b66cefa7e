"""Write a recording to a file, and read it; the format is in docs/howto/debug.md.

The file is a zip archive of JSON, arrays of int32 and the raw elements of values, so that other
programs can read it. Nothing in it is executed.
"""

from __future__ import annotations

import contextlib
import io
import json
import zipfile
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from graphmill import files
from graphmill.debug.recorded_graph import (
    CONSTANT_ENTER,
    ENTER,
    EXIT,
    ROLES,
    RecordedEdge,
    RecordedGraph,
    RecordedNode,
)
from graphmill.debug.recording import NO_SOURCE, Event, Instance, RecordedRun, Recording
from graphmill.debug.statistics import Statistics
from graphmill.debug.values import DEAD_VALUE, RecordedValue, content_of, digest_of
from graphmill.dtypes import as_dtype
from graphmill.errors import DataLossError, FailedPreconditionError, InvalidArgumentError
from graphmill.files.damaged_zip import DAMAGED_ZIP
from graphmill.memory_budget import request_memory

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

FORMAT: Final = "graphmill recording"
VERSION: Final = 1
_ZIP: Final = b"PK"
_HEADER: Final = "recording.json"
_COLUMNS: Final = ("run", "node", "dead")
_RAGGED: Final = ("numbers", "outputs", "sources")
_LEVELS: Final = {ENTER: 1, CONSTANT_ENTER: 1, EXIT: -1}  # how a role changes the depth of frames
# Errors of reading a damaged archive, such as an unknown compression, and what its JSON may cause.
_DAMAGE: Final[tuple[type[Exception], ...]] = (
    *DAMAGED_ZIP,
    *(KeyError, IndexError, TypeError, OverflowError, RecursionError),
)


def save(recording: Recording, path: str | os.PathLike[str]) -> None:
    """Write a recording to a file, which appears complete or not at all.

    Args:
        recording: the recording; one that is not complete may be saved, too.
        path: the file, customarily with the suffix `.gmrec`.

    Raises:
        OpError: the file cannot be written.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(_HEADER, json.dumps(_header(recording)))
        for name, column in _columns(recording).items():
            archive.writestr(f"events/{name}", column.astype("<i4").tobytes())
        written = set()
        for value in recording.values:
            if value.array is not None and value.digest not in written:
                written.add(value.digest)
                archive.writestr(f"values/{value.digest}", bytes(content_of(value.array)))
    files.write(files.as_path(path), buffer.getbuffer())


def load(path: str | os.PathLike[str]) -> Recording:
    """Return the recording in a file.

    Args:
        path: a file that `save` wrote, here or on another machine.

    Raises:
        NotFoundError: the file does not exist.
        InvalidArgumentError: it is not a recording.
        FailedPreconditionError: it has another version of the format.
        DataLossError: it is damaged or truncated.
    """
    name = files.as_path(path)
    content = files.read_bytes(name)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return _Reader(name, archive).recording()
    except zipfile.BadZipFile as error:
        if content.startswith(_ZIP):
            raise DataLossError(f"the recording {name} is damaged or truncated: {error}") from error
        raise InvalidArgumentError(f"{name} is not a recording: {error}") from error
    except _DAMAGE as error:
        raise DataLossError(f"the recording {name} is damaged: {error!r}") from error


def is_recording(path: str | os.PathLike[str]) -> bool:
    """Return whether a file starts like a recording, unlike a model; false if it does not exist.

    Raises:
        OpError: the file cannot be read.
    """
    name = files.as_path(path)
    if not files.exists(name) or files.is_dir(name):
        return False
    with contextlib.closing(files.open_reader(name)) as reader:
        start = bytearray(min(reader.size, len(_ZIP)))
        reader.read_into(0, memoryview(start))
    return bytes(start) == _ZIP


def _header(recording: Recording) -> dict[str, Any]:
    from graphmill import __version__

    return {
        "format": FORMAT,
        "version": VERSION,
        "written_by": f"graphmill {__version__}",
        "feeds": recording.feeds,
        "fetches": recording.fetches,
        "targets": recording.targets,
        "error": recording.error,
        "failed": recording.failed,
        "waiting": recording.waiting,
        "is_complete": recording.is_complete,
        "graphs": [_graph_data(graph) for graph in recording.graphs],
        "runs": [run._asdict() for run in recording.runs],
        "values": [_value_data(value) for value in recording.values],
    }


def _graph_data(graph: RecordedGraph) -> dict[str, Any]:
    return {
        "device": graph.device,
        "nodes": [node._asdict() for node in graph.nodes],
        "constants": list(graph.constants.items()),
    }


def _value_data(value: RecordedValue) -> dict[str, Any]:
    statistics = value.statistics
    return {
        "dtype": value.dtype,
        "shape": value.shape,
        "digest": value.digest,
        "num_bytes": value.num_bytes,
        "text": value.text,
        "is_reference": value.is_reference,
        "is_stored": value.array is not None,
        "statistics": None if statistics is None else asdict(statistics),
    }


def _columns(recording: Recording) -> dict[str, NDArray[Any]]:
    events = recording.events
    columns = {
        "run": np.array([event.instance.run for event in events], np.int32),
        "node": np.array([event.instance.node for event in events], np.int32),
        "dead": np.array([event.is_dead for event in events], np.int32),
    }
    rows: dict[str, list[tuple[int, ...]]] = {
        "numbers": [event.instance.numbers for event in events],
        "outputs": [event.outputs for event in events],
        "sources": [event.sources for event in events],
    }
    for name, tuples in rows.items():
        columns[f"{name}_sizes"] = np.array([len(row) for row in tuples], np.int32)
        columns[name] = np.array([number for row in tuples for number in row], np.int32)
    return columns


class _Reader:
    """Reads an archive, and checks everything that it refers to.

    Args:
        path: the file, for messages.
        archive: its content.
    """

    def __init__(self, path: str, archive: zipfile.ZipFile) -> None:
        self._path = path
        self._archive = archive

    def recording(self) -> Recording:
        """Return the recording."""
        header = self._header()
        recording = Recording(header["feeds"], header["fetches"], header["targets"])
        recording.error = str(header["error"])
        recording.waiting = tuple(map(str, header["waiting"]))
        recording.is_complete = bool(header["is_complete"])
        recording.values = [self._value(data) for data in header["values"]]
        count = len(recording.values)
        recording.graphs = [self._graph(data, count) for data in header["graphs"]]
        for index, data in enumerate(header["runs"]):
            run = self._run(data, index, recording)
            recording.runs.append(run)
            if run.caller is not None:
                self._check_instance(f"the caller of run {index}", run.caller, recording)
        self._read_events(recording)
        if header["failed"] is not None:
            recording.failed = _instance(header["failed"])
            self._check_instance("the node that failed", recording.failed, recording)
        return recording

    def _header(self) -> dict[str, Any]:
        if _HEADER not in self._archive.namelist():
            raise InvalidArgumentError(f"{self._path} is not a recording: it has no {_HEADER}")
        header = json.loads(self._bytes(_HEADER))
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            raise InvalidArgumentError(
                f"{self._path} is not a recording: its header names no format"
            )
        version = header.get("version")
        if version != VERSION:
            raise FailedPreconditionError(
                f"the recording {self._path} has version {version} of the format, this graphmill "
                f"reads version {VERSION}; it was written by {header.get('written_by', '?')}: open "
                "it with that version, or record the step again"
            )
        return header

    def _bytes(self, name: str) -> bytes:
        size = self._archive.getinfo(name).file_size
        request_memory(size, f"{name} of the recording {self._path} has {size} bytes")
        return self._archive.read(name)

    def _value(self, data: dict[str, Any]) -> RecordedValue:
        shape = tuple(int(size) for size in data["shape"])
        statistics = data["statistics"]
        value = RecordedValue(
            str(data["dtype"]),
            shape,
            str(data["digest"]),
            None,
            int(data["num_bytes"]),
            str(data["text"]),
            bool(data["is_reference"]),
            None if statistics is None else Statistics(**statistics),
        )
        if data["is_stored"]:
            content = self._bytes(f"values/{value.digest}")
            value.array = _array(content, value.dtype, shape)
            if digest_of(value.array) != value.digest:
                self._fail(f"the content of value {value.digest[:12]} does not match its hash")
        return value

    def _graph(self, data: dict[str, Any], num_values: int) -> RecordedGraph:
        count = len(data["nodes"])
        nodes = [self._node(entry, count) for entry in data["nodes"]]
        for node in nodes:
            for edge in node.inputs:
                self._check_edge(node, edge, nodes[edge.node])
        self._check_name(data["device"])
        constants = {int(node): int(value) for node, value in data["constants"]}
        self._check("a constant", constants, count)
        self._check("a value of a constant", constants.values(), num_values)
        return RecordedGraph(nodes, str(data["device"]), constants)

    def _node(self, data: dict[str, Any], count: int) -> RecordedNode:
        for text in (data["name"], data["op"], data["child_frame"], *data["frame"]):
            self._check_name(text)
        edges = tuple(RecordedEdge(int(node), int(output)) for node, output in data["inputs"])
        self._check(f"an input of node {data['name']!r}", (edge.node for edge in edges), count)
        if data["role"] not in ROLES:
            self._fail(f"node {data['name']!r} has the unknown role {data['role']!r}")
        return RecordedNode(
            name=str(data["name"]),
            op=str(data["op"]),
            role=data["role"],
            frame=tuple(map(str, data["frame"])),
            child_frame=str(data["child_frame"]),
            inputs=edges,
            num_outputs=int(data["num_outputs"]),
            has_effects=bool(data["has_effects"]),
            is_argument=bool(data["is_argument"]),
            is_result=bool(data["is_result"]),
        )

    def _check_edge(self, node: RecordedNode, edge: RecordedEdge, source: RecordedNode) -> None:
        self._check(f"an input of node {node.name!r}", [edge.output], source.num_outputs, -1)
        if len(source.frame) + _LEVELS.get(source.role, 0) != len(node.frame):
            self._fail(f"node {node.name!r} is in other frames than its input {source.name!r}")

    def _run(self, data: dict[str, Any], index: int, recording: Recording) -> RecordedRun:
        graph, caller = int(data["graph"]), data["caller"]
        self._check(f"the graph of run {index}", [graph], len(recording.graphs))
        instance = None
        if caller is not None:
            instance = _instance(caller)
            self._check(f"the caller of run {index}", [instance.run], index)
        return RecordedRun(graph, instance, int(data["call"]), bool(data["is_loop"]))

    def _read_events(self, recording: Recording) -> None:
        columns = [self._column(name) for name in _COLUMNS]
        ragged = [self._rows(name) for name in _RAGGED]
        rows = zip(*columns, *ragged, strict=True)
        for index, (run, node, dead, numbers, outputs, sources) in enumerate(rows):
            instance = Instance(run, node, numbers)
            self._check_instance(f"event {index}", instance, recording)
            self._check(f"an output of event {index}", outputs, len(recording.values), DEAD_VALUE)
            if len(outputs) < recording.node_of(instance).num_outputs:
                self._fail(f"event {index} has fewer outputs than its node")
            self._check(f"a source of event {index}", sources, index, NO_SOURCE)
            recording.append(Event(instance, bool(dead), outputs, sources))

    def _check_instance(self, what: str, instance: Instance, recording: Recording) -> None:
        self._check(f"the run of {what}", [instance.run], len(recording.runs))
        graph = recording.graphs[recording.runs[instance.run].graph]
        self._check(f"the node of {what}", [instance.node], len(graph.nodes))
        if len(instance.numbers) != len(graph.nodes[instance.node].frame):
            self._fail(f"{what} has iterations of other frames than its node")

    def _column(self, name: str) -> list[int]:
        found: list[int] = np.frombuffer(self._bytes(f"events/{name}"), "<i4").tolist()
        return found

    def _rows(self, name: str) -> list[tuple[int, ...]]:
        numbers, rows, start = self._column(name), [], 0
        for size in self._column(f"{name}_sizes"):
            if size < 0 or start + size > len(numbers):
                self._fail(f"the column {name} is too short")
            rows.append(tuple(numbers[start : start + size]))
            start += size
        return rows

    def _check(self, what: str, indices: Iterable[int], stop: int, lowest: int = 0) -> None:
        for index in indices:
            if not lowest <= index < stop:
                self._fail(f"{what} is {index}, expected {lowest} or more, below {stop}")

    def _check_name(self, text: Any) -> None:
        """Refuse a name that a terminal would show as something else, such as further lines."""
        if not str(text).isprintable():
            self._fail(f"{text!r} is not the name of a node, op, frame or device")

    def _fail(self, text: str) -> NoReturn:
        raise DataLossError(f"the recording {self._path} is damaged: {text}")


def _instance(data: Sequence[Any]) -> Instance:
    run, node, numbers = data
    return Instance(int(run), int(node), tuple(map(int, numbers)))


def _array(content: bytes, dtype: str, shape: Sequence[int]) -> NDArray[Any]:
    """Return the array with the given elements; see `content_of`."""
    kind = as_dtype(dtype)
    if kind.name != "string":
        return np.frombuffer(content, kind.as_numpy_dtype).reshape(shape).copy()
    texts, start = [], 0
    while start < len(content):
        size = int.from_bytes(content[start : start + 8], "little")
        start += 8
        if start + size > len(content):
            raise ValueError("a string is too short")
        texts.append(content[start : start + size])
        start += size
    array = np.empty(len(texts), object)
    array[:] = texts
    return array.reshape(shape)
