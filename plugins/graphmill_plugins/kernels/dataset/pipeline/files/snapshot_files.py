"""The files of saved datasets and snapshots, in TensorFlow's formats.

A run of a snapshot is a folder with a folder for each shard, whose files have the elements in
TFRecords, one for each component. `snapshot.metadata` names the run.

Semantics: tensorflow/core/data/snapshot_utils.cc and protobuf/snapshot.proto.
"""

from __future__ import annotations

import io
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

import numpy as np

from graphmill import dtypes
from graphmill.errors import DataLossError, InvalidArgumentError, UnimplementedError
from graphmill.spi import files
from graphmill.spi.files import check_compression, frame, read_record
from graphmill.spi.protos import (
    TensorProto,
    iterate_fields,
    length_delimited,
    read_varint,
    tensor_proto_to_numpy,
    write_varint,
)
from graphmill_plugins.kernels.dataset.pipeline.dataset import ElementIterator
from graphmill_plugins.kernels.dataset.pipeline.files.snappy import SnappyStream, blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import Value
    from graphmill.spi.files import Broker
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Element

METADATA: Final = "snapshot.metadata"
VERSION: Final = 2
"""The version of the file format; version 1 was used by the first snapshots."""
SNAPPY: Final = "SNAPPY"
_OBJECTS: Final = (dtypes.variant, dtypes.resource)


@dataclass(frozen=True)
class Metadata:
    """The content of `snapshot.metadata`.

    Attributes:
        run_id: the name of the folder of the run.
        graph_hash: the hash of the dataset that was written, as text.
        created: when, in microseconds.
        version: that of the file format.
        types: the types of the components.
        num_elements: the number of elements, 0 if it is unknown.
        is_finalized: whether all elements were written.
    """

    run_id: str
    graph_hash: str = ""
    created: int = 0
    version: int = VERSION
    types: tuple[int, ...] = ()
    num_elements: int = 0
    is_finalized: bool = False

    def serialized(self) -> bytes:
        """Return the content of the file."""
        types = b"".join(map(write_varint, self.types))
        return b"".join(
            (
                _text(1, self.graph_hash.encode()),
                _text(2, self.run_id.encode()),
                number_field(3, self.created),
                number_field(4, self.version),
                _text(5, types),
                number_field(6, self.num_elements),
                number_field(1000, int(self.is_finalized)),
            )
        )


def _text(number: int, content: bytes) -> bytes:
    return length_delimited(number, len(content)) + content if content else b""


def number_field(number: int, value: int) -> bytes:
    """Return a field of a message that holds a number; nothing for zero."""
    return write_varint(number << 3) + write_varint(value) if value else b""


def now() -> int:
    """Return the time in microseconds."""
    return time.time_ns() // 1000


def read_metadata(folder: str, broker: Broker) -> Metadata | None:
    """Return the metadata in a folder, None if there are none.

    Raises:
        DataLossError: the file is corrupted.
    """
    path = files.join(folder, METADATA)
    if not broker.exists(path):
        return None
    content = broker.read_bytes(path)
    texts: dict[int, bytes] = {}
    numbers: dict[int, int] = {}
    for field in iterate_fields(content, 0, len(content)):
        texts[field.number] = content[field.start : field.end]
        numbers[field.number] = field.value
    return Metadata(
        run_id=texts.get(2, b"").decode(),
        graph_hash=texts.get(1, b"").decode(),
        created=numbers.get(3, 0),
        version=numbers.get(4, 0),
        types=tuple(_varints(texts.get(5, b""))),
        num_elements=numbers.get(6, 0),
        is_finalized=bool(numbers.get(1000, 0)),
    )


def _varints(content: bytes) -> list[int]:
    values, position = [], 0
    while position < len(content):
        value, position = read_varint(content, position, len(content))
        values.append(value)
    return values


def write_metadata(folder: str, metadata: Metadata, broker: Broker) -> None:
    """Write the metadata into a folder, replacing earlier ones."""
    broker.write(files.join(folder, METADATA), metadata.serialized())


def prefixed(prefix: str, path: str) -> str:
    """Return a path below the prefix, if there is one, even if the path begins with a slash."""
    return files.join(prefix, path.lstrip("/")) if prefix else path


def shard_folder(run: str, shard: int) -> str:
    """Return the folder of a shard; negative numbers count from 2**64, as in TensorFlow."""
    return files.join(run, f"{shard % (1 << 64):08d}.shard")


def data_file(folder: str, number: int) -> str:
    """Return a file of a shard."""
    return files.join(folder, f"{number:08d}.snapshot")


def check_snapshot_compression(compression: str) -> None:
    """Check the name of a compression.

    Raises:
        InvalidArgumentError: the compression is unknown.
    """
    if compression != SNAPPY:
        check_compression(compression)


class ElementWriter:
    """Writes elements to a file, which appears under its path when the writer is closed."""

    def __init__(self, path: str, compression: str, types: Sequence[DType], broker: Broker) -> None:
        self._is_snappy = compression == SNAPPY
        self._stream = broker.open_stream_writer(path, "" if self._is_snappy else compression)
        self._types = tuple(types)

    def write(self, element: Element) -> None:
        """Append an element."""
        content = b"".join(
            frame(serialized_tensor(*pair)) for pair in zip(element, self._types, strict=True)
        )
        for block in blocks(content) if self._is_snappy else (content,):
            self._stream.write(block)

    def close(self) -> None:
        """Finish the file."""
        self._stream.close()

    def abandon(self) -> None:
        """Delete the unfinished file."""
        self._stream.abandon()


class ElementReader(ElementIterator):
    """Reads the elements of a file."""

    def __init__(self, path: str, compression: str, types: Sequence[DType], broker: Broker) -> None:
        self._stream = _opened(path, compression, broker)
        self._path, self._types = path, tuple(types)

    def __next__(self) -> Element:
        element = []
        for index in range(len(self._types)):
            record = read_record(self._stream)
            if record is None and not index:
                raise StopIteration
            if record is None:
                raise DataLossError(f"{self._path} ends within an element")
            element.append(tensor_of(record))
        if not element:
            raise StopIteration
        return tuple(element)


def _opened(path: str, compression: str, broker: Broker) -> BinaryIO:
    if compression != SNAPPY:
        return broker.open_stream(path, compression)
    return cast("BinaryIO", io.BufferedReader(SnappyStream(broker.open_stream(path))))


def serialized_tensor(value: Value, dtype: DType) -> bytes:
    """Return a value as a serialized `TensorProto` with its elements in `tensor_content`.

    Raises:
        UnimplementedError: the value is a variant or a resource.
    """
    if dtype in _OBJECTS:
        raise UnimplementedError(f"elements of type {dtype.name} cannot be written to a file")
    array = np.asarray(value)
    message = TensorProto(dtype=dtype.enum)  # type: ignore[arg-type]
    message.tensor_shape.SetInParent()
    for size in array.shape:
        message.tensor_shape.dim.add(size=size)
    if dtype is dtypes.string:
        items = array.ravel().tolist()
        message.tensor_content = b"".join([write_varint(len(item)) for item in items] + items)
    else:
        message.tensor_content = np.ascontiguousarray(array).tobytes()
    return message.SerializeToString()


def tensor_of(record: bytes) -> Any:
    """Return the value of a serialized `TensorProto`.

    Raises:
        DataLossError: the bytes are not a `TensorProto`.
    """
    from google.protobuf.message import DecodeError

    try:
        array = tensor_proto_to_numpy(TensorProto.FromString(record))
    except (DecodeError, InvalidArgumentError) as error:
        raise DataLossError(
            f"a record of a snapshot is not a serialized tensor: {error}"
        ) from error
    return array
