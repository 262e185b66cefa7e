"""TFRecord files: sequences of byte records with checksums.

    with graphmill.tf_record.TFRecordWriter("digits.tfrecord") as writer:
        writer.write(b"one")
    for record in graphmill.tf_record.tf_record_iterator("digits.tfrecord"):
        print(record)

Format (tensorflow/core/lib/io/record_writer.h), all little-endian: the length in 8 bytes, its
masked CRC-32C, the record, the record's masked CRC-32C.
"""

from __future__ import annotations

import struct
from contextlib import closing
from typing import TYPE_CHECKING

from graphmill import errors
from graphmill.files import as_path
from graphmill.files.base import DEFAULT_BUFFER
from graphmill.files.stream import StreamWriter, open_stream, read_exactly
from graphmill.saved import crc

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from typing import BinaryIO, Self

__all__ = ["TFRecordWriter", "frame", "read_record", "tf_record_iterator"]

_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")
_HEADER_SIZE = _LENGTH.size + _CRC.size


def frame(record: bytes) -> bytes:
    """Return a record as it is stored in a file, with its length and checksums."""
    length = _LENGTH.pack(len(record))
    return b"".join((length, _CRC.pack(_checksum(length)), record, _CRC.pack(_checksum(record))))


def read_record(stream: BinaryIO, offset: int = 0) -> bytes | None:
    """Return the next record of a stream, or None at its end.

    Args:
        stream: from `graphmill.files.stream.open_stream`.
        offset: position of the record in the file, for messages.

    Raises:
        DataLossError: the record is corrupted or truncated.
    """
    header = stream.read(_HEADER_SIZE)
    if not header:
        return None
    if len(header) < _HEADER_SIZE:
        raise errors.DataLossError(
            f"truncated record at {offset}: the file ends within the record's header"
        )
    (length,), (stored,) = _LENGTH.unpack_from(header), _CRC.unpack_from(header, _LENGTH.size)
    if _checksum(header[: _LENGTH.size]) != stored:
        raise errors.DataLossError(f"corrupted record at {offset}: wrong checksum of the length")
    body = read_exactly(stream, length + _CRC.size)
    if len(body) < length + _CRC.size:
        raise errors.DataLossError(
            f"truncated record at {offset}: expected {length + _CRC.size} bytes after the header, "
            f"the file has {len(body)}"
        )
    record = body[:length]
    if _checksum(record) != _CRC.unpack_from(body, length)[0]:
        raise errors.DataLossError(f"corrupted record at {offset}: wrong checksum of the content")
    return record


def tf_record_iterator(
    path: str | os.PathLike[str], compression: str = "", buffer_size: int = DEFAULT_BUFFER
) -> Iterator[bytes]:
    """Yield the records of a file.

    Args:
        path: a local path or URL.
        compression: "", "ZLIB" or "GZIP".
        buffer_size: number of bytes to read at a time.

    Raises:
        NotFoundError: the file does not exist.
        DataLossError: the file is corrupted or truncated.
        InvalidArgumentError: the compression is unknown.
    """
    offset = 0
    with closing(open_stream(as_path(path), compression, buffer_size)) as stream:
        while (record := read_record(stream, offset)) is not None:
            yield record
            offset += _HEADER_SIZE + len(record) + _CRC.size


class TFRecordWriter:
    """Write records to a file, which appears under its path when the writer is closed.

    Args:
        path: a local path or URL.
        compression: "", "ZLIB" or "GZIP".
        stream: the file if it is open already.

    Raises:
        InvalidArgumentError: the compression is unknown.
        PermissionDeniedError, FailedPreconditionError: the file cannot be written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        compression: str = "",
        stream: StreamWriter | None = None,
    ) -> None:
        self._stream = StreamWriter(as_path(path), compression) if stream is None else stream

    def write(self, record: bytes) -> None:
        """Append a record."""
        self._stream.write(frame(bytes(record)))

    def close(self) -> None:
        """Finish the file; safe to call twice."""
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._stream.__exit__(kind, error, trace)


def _checksum(data: bytes) -> int:
    return crc.mask(crc.value(data))
