"""The first version of snapshots: one run of numbered files, and modes.

Semantics: tensorflow/core/kernels/data/experimental/snapshot_dataset_op.cc (version 1) and
core/data/snapshot_utils.cc. Unlike in TensorFlow, one thread writes and reads, in the order of
the elements, and the graph of the dataset is not written beside the snapshot.
"""

from __future__ import annotations

import math
import random
import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import dtypes
from graphmill.errors import DataLossError, InvalidArgumentError, NotFoundError
from graphmill.spi import files
from graphmill.spi.files import read_exactly
from graphmill.spi.protos import iterate_fields, length_delimited
from graphmill_plugins.kernels.dataset.pipeline.dataset import Derived, ElementIterator
from graphmill_plugins.kernels.dataset.pipeline.files.saved import Writing
from graphmill_plugins.kernels.dataset.pipeline.files.snappy import compressed, decompressed
from graphmill_plugins.kernels.dataset.pipeline.files.snapshot_files import (
    SNAPPY,
    Metadata,
    check_snapshot_compression,
    data_file,
    now,
    number_field,
    prefixed,
    read_metadata,
    serialized_tensor,
    tensor_of,
    write_metadata,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import BinaryIO

    from graphmill.dtypes import DType
    from graphmill.spi.files import Broker
    from graphmill_plugins.kernels.dataset.pipeline.dataset import (
        Dataset,
        Element,
        Elements,
        Scope,
    )

MODES: Final = ("auto", "read", "write", "passthrough")
_VERSION: Final = 1
_LENGTH_BYTES: Final = 8
_MAX_DIM: Final = (1 << 31) - 1  # beyond it NumPy may refuse the shape of an empty tensor
_SIZE_FIELD, _SHAPE_FIELD = 3, 2  # of TensorMetadata in snapshot.proto


@dataclass(frozen=True)
class SnapshotOptions:
    """The attrs of a snapshot of version 1.

    Attributes:
        compression: that of the files: empty, `GZIP` or `SNAPPY`.
        reader_prefix: what precedes the paths that are read.
        writer_prefix: what precedes the paths that are written.
        shard_bytes: the size from which the next file is begun.
        expiry_seconds: after how long an unfinished snapshot counts as abandoned.
        shuffles: whether the files are read in random order.
        seed: of that order; None for a new one in each iteration.
        mode: one of `MODES`.
        name: names the snapshot instead of the hash of the dataset; may be empty.
    """

    compression: str = ""
    reader_prefix: str = ""
    writer_prefix: str = ""
    shard_bytes: int = 10 << 30
    expiry_seconds: int = 86400
    shuffles: bool = False
    seed: int | None = None
    mode: str = "auto"
    name: str = ""


class SnapshotV1(Derived):
    """The elements of a dataset: computed and written, read, or only computed.

    Args:
        source: the dataset.
        path: the folder of the snapshots.
        graph_hash: identifies the dataset.
        options: the attrs of the op.
        broker: opens the files.

    Raises:
        InvalidArgumentError: the compression or the mode is unknown.
    """

    waits = True

    def __init__(
        self, source: Dataset, path: str, graph_hash: int, options: SnapshotOptions, broker: Broker
    ) -> None:
        check_snapshot_compression(options.compression)
        if options.mode not in MODES:
            raise InvalidArgumentError(
                f"mode must be either 'auto', 'read', 'write', or 'passthrough', got "
                f"{options.mode!r}"
            )
        super().__init__(source)
        self._options, self._broker = options, broker
        self._name = f"custom-{options.name}" if options.name else f"{graph_hash:x}"
        self._read_folder = _folder(options.reader_prefix, path, self._name)
        self._write_folder = _folder(options.writer_prefix, path, self._name)

    @property
    def cardinality(self) -> int:
        """The cardinality of the input."""
        return self.source.cardinality

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements.

        Raises:
            NotFoundError: the mode is `read`, and there is no snapshot.
        """
        metadata = None
        if self._options.mode in ("auto", "read"):
            metadata = read_metadata(self._read_folder, self._broker)
        if self._reads(metadata):
            return self._read(metadata)
        if self._passes(metadata):
            return self.source.iterate(scope)
        writer = self._writer()
        return Writing(self.source.iterate(scope), writer.write, writer.finish, writer.abandon)

    def _reads(self, metadata: Metadata | None) -> bool:
        if self._options.mode == "read" and metadata is None:
            raise NotFoundError(f"Metadata file does not exist: {self._read_folder}")
        return metadata is not None and (self._options.mode == "read" or metadata.is_finalized)

    def _passes(self, metadata: Metadata | None) -> bool:
        """Return whether nothing is written, because another process may be writing."""
        if metadata is None:
            return self._options.mode == "passthrough"
        return metadata.created >= now() - self._options.expiry_seconds * 1_000_000

    def _read(self, metadata: Metadata | None) -> Elements:
        assert metadata is not None
        if metadata.version != _VERSION:
            raise InvalidArgumentError(
                f"the snapshot in {self._read_folder} has version {metadata.version} of the "
                f"format; expected {_VERSION}"
            )
        run = files.join(self._read_folder, metadata.run_id)
        names = sorted(name for name in self._broker.list_dir(run) if name.endswith(".snapshot"))
        if self._options.shuffles:
            random.Random(self._options.seed).shuffle(names)
        paths = [files.join(run, name) for name in names]
        return _Reading(paths, self._options.compression, self.dtypes, self._broker)

    def _writer(self) -> _RunWriter:
        run_id = "custom" if self._options.name else f"{secrets.randbits(64):x}"
        types = tuple(dtype.enum for dtype in self.dtypes)
        metadata = Metadata(run_id, self._name, created=now(), version=_VERSION, types=types)
        return _RunWriter(self._write_folder, metadata, self.dtypes, self._options, self._broker)


def _folder(prefix: str, path: str, name: str) -> str:
    return files.join(prefixed(prefix, path), name)


class _RunWriter:
    """Writes the files of a run."""

    def __init__(
        self,
        folder: str,
        metadata: Metadata,
        types: Sequence[DType],
        options: SnapshotOptions,
        broker: Broker,
    ) -> None:
        self._folder, self._metadata, self._types = folder, metadata, tuple(types)
        self._is_snappy = options.compression == SNAPPY
        self._compression = "" if self._is_snappy else options.compression
        self._shard_bytes, self._broker = options.shard_bytes, broker
        self._run = files.join(folder, metadata.run_id)
        broker.make_dirs(self._run)
        write_metadata(folder, metadata, broker)
        self._number, self._size = 0, 0
        self._stream = self._opened()

    def write(self, element: Element) -> None:
        """Append an element."""
        encode = _snappy_records if self._is_snappy else _plain_records
        content = b"".join(_with_length(record) for record in encode(element, self._types))
        if self._size and self._size + len(content) > self._shard_bytes:
            self._stream.close()
            self._number, self._size = self._number + 1, 0
            self._stream = self._opened()
        self._stream.write(content)
        self._size += len(content)

    def finish(self) -> None:
        """Finish the last file, and record in the metadata that the run is complete."""
        self._stream.close()
        write_metadata(self._folder, replace(self._metadata, is_finalized=True), self._broker)

    def abandon(self) -> None:
        """Delete the unfinished file."""
        self._stream.abandon()

    def _opened(self) -> Any:
        path = data_file(self._run, self._number)
        return self._broker.open_stream_writer(path, self._compression)


class _Reading(ElementIterator):
    """Reads the elements of files, one file after the other."""

    def __init__(
        self, paths: Sequence[str], compression: str, types: Sequence[DType], broker: Broker
    ) -> None:
        self._paths, self._types, self._broker = iter(paths), tuple(types), broker
        self._is_snappy = compression == SNAPPY
        self._compression = "" if self._is_snappy else compression
        self._path = ""
        self._stream: BinaryIO | None = None

    def __next__(self) -> Element:
        while True:
            if self._stream is None:
                self._path = next(self._paths)
                self._stream = self._broker.open_stream(self._path, self._compression)
            record = self._record(self._stream)
            if record is not None:
                return self._element(record, self._stream)
            self._stream.close()
            self._stream = None

    def _element(self, record: bytes, stream: BinaryIO) -> Element:
        tensors: list[Any]
        if self._is_snappy:
            content = self._record(stream)
            if content is None:
                raise DataLossError(f"{self._path} ends within an element")
            tensors = list(_snappy_tensors(record, decompressed(content), self._types))
        else:
            fields = iterate_fields(record, 0, len(record))
            tensors = [tensor_of(record[field.start : field.end]) for field in fields]
        if len(tensors) != len(self._types):
            raise DataLossError(
                f"an element in {self._path} has {len(tensors)} components, not {len(self._types)}"
            )
        return tuple(tensors)

    def _record(self, stream: BinaryIO) -> bytes | None:
        """Return the next record; None at the end of the file."""
        length = stream.read(_LENGTH_BYTES)
        if not length:
            return None
        number = int.from_bytes(length, "little")
        content = read_exactly(stream, number) if len(length) == _LENGTH_BYTES else b""
        if len(length) < _LENGTH_BYTES or len(content) < number:
            raise DataLossError(f"{self._path} ends within an element")
        return content


def _with_length(record: bytes) -> bytes:
    return len(record).to_bytes(_LENGTH_BYTES, "little") + record


def _field(number: int, content: bytes) -> bytes:
    return length_delimited(number, len(content)) + content


def _plain_records(element: Element, types: Sequence[DType]) -> Iterator[bytes]:
    """Yield the `SnapshotRecord` of an element."""
    tensors = (serialized_tensor(*pair) for pair in zip(element, types, strict=True))
    yield b"".join(_field(1, tensor) for tensor in tensors)


def _snappy_records(element: Element, types: Sequence[DType]) -> Iterator[bytes]:
    """Yield the `SnapshotTensorMetadata` of an element, and its compressed tensors."""
    headers, contents = [], []
    for value, dtype in zip(element, types, strict=True):
        array = np.asarray(value)
        is_plain = dtype is not dtypes.string
        content = (
            np.ascontiguousarray(array).tobytes() if is_plain else serialized_tensor(value, dtype)
        )
        dims = b"".join(_field(2, number_field(1, size)) for size in array.shape)
        size = number_field(_SIZE_FIELD, len(content))
        headers.append(_field(1, _field(_SHAPE_FIELD, dims) + size))
        contents.append(content)
    yield b"".join(headers)
    yield compressed(b"".join(contents))


def _snappy_tensors(header: bytes, content: bytes, types: Sequence[DType]) -> Iterator[Any]:
    """Yield the tensors of an element.

    Raises:
        DataLossError: header and content do not belong together.
    """
    position = 0
    fields = iterate_fields(header, 0, len(header))
    for field, dtype in zip(fields, types, strict=False):
        shape, size = _shape_and_size(header, field.start, field.end)
        part = content[position : position + size]
        position += size
        if dtype is dtypes.string:
            yield tensor_of(part)
            continue
        numpy_type = np.dtype(dtype.as_numpy_dtype)
        if len(part) != numpy_type.itemsize * math.prod(shape) or max(shape, default=0) > _MAX_DIM:
            raise DataLossError("the size of a tensor in a snapshot differs from its metadata")
        yield np.frombuffer(part, numpy_type).reshape(shape).copy()


def _shape_and_size(header: bytes, start: int, end: int) -> tuple[list[int], int]:
    shape: list[int] = []
    size = 0
    for field in iterate_fields(header, start, end):
        if field.number == _SIZE_FIELD:
            size = field.value
        elif field.number == _SHAPE_FIELD:
            for dim in iterate_fields(header, field.start, field.end):
                sizes = [one.value for one in iterate_fields(header, dim.start, dim.end)]
                shape.append(sizes[0] if sizes else 0)
    return shape, size
