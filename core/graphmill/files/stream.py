"""Sequential reading and writing of files, with or without compression.

Semantics: tensorflow/core/lib/io/{inputbuffer,zlib_inputstream,zlib_outputbuffer}.cc; the
compression types are TensorFlow's: "" for none, ZLIB and GZIP.
"""

from __future__ import annotations

import io
import zlib
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from graphmill import errors
from graphmill.files import open_reader, open_writer
from graphmill.files.base import DEFAULT_BUFFER, BytesReader
from graphmill.memory_budget import request_memory

if TYPE_CHECKING:
    from typing import Self

    from graphmill.files.base import Chunk, Reader, Writer

_WINDOW_BITS: Final = {"ZLIB": zlib.MAX_WBITS, "GZIP": zlib.MAX_WBITS | 16}
_PIECE: Final = 1 << 18
_MAX_READ_BYTES: Final = 1 << 24
_MIN_BUFFER: Final = 1 << 12


def check_compression(compression: str) -> None:
    """Check the name of a compression.

    Raises:
        InvalidArgumentError: the compression is unknown.
    """
    if compression and compression not in _WINDOW_BITS:
        raise errors.InvalidArgumentError(
            f"unknown compression type {compression!r}; expected '', 'ZLIB' or 'GZIP'"
        )


def open_stream(path: str, compression: str = "", buffer_size: int = DEFAULT_BUFFER) -> BinaryIO:
    """Open a file for sequential reading.

    Raises:
        InvalidArgumentError: the compression is unknown.
        NotFoundError, PermissionDeniedError, FailedPreconditionError: the file cannot be opened.
    """
    check_compression(compression)
    return stream_of(open_reader(path), compression, buffer_size)


def bytes_stream(content: bytes, compression: str = "") -> BinaryIO:
    """Return a stream over bytes in memory.

    Raises:
        InvalidArgumentError: the compression is unknown.
    """
    check_compression(compression)
    return stream_of(BytesReader(content), compression, DEFAULT_BUFFER)


def read_exactly(stream: BinaryIO, size: int) -> bytes:
    """Return the next `size` bytes, or fewer at the end of the file.

    Memory is allocated as data arrives, so a damaged size in a small file allocates little.

    Raises:
        ResourceExhaustedError: they are more than the memory budget.
    """
    if size <= _MAX_READ_BYTES:
        return stream.read(size)
    parts = []
    done = 0
    while done < size:
        part = stream.read(min(size - done, _MAX_READ_BYTES))
        if not part:
            break
        parts.append(part)
        done += len(part)
        request_memory(done, f"a record of {size} bytes is read")
    return b"".join(parts)


def read_line(stream: BinaryIO) -> bytes:
    """Return the next line with its end, b"" at the end of the file.

    Raises:
        ResourceExhaustedError: the line is longer than the memory budget.
    """
    line = stream.readline(_MAX_READ_BYTES)
    if len(line) < _MAX_READ_BYTES or line.endswith(b"\n"):
        return line
    parts = [line]
    size = len(line)
    while part := stream.readline(_MAX_READ_BYTES):
        parts.append(part)
        size += len(part)
        request_memory(size, f"a line has {size} bytes or more")
        if part.endswith(b"\n"):
            break
    return b"".join(parts)


def stream_of(reader: Reader, compression: str, buffer_size: int) -> BinaryIO:
    """Return a stream over an open file, which closes it.

    A buffer has at most 16 MiB, whatever size is requested.
    """
    raw: io.RawIOBase = _Plain(reader)
    if compression:
        raw = _Inflated(raw, compression, reader.path)
    size = min(max(buffer_size, _MIN_BUFFER), _MAX_READ_BYTES)
    return cast("BinaryIO", io.BufferedReader(raw, size))


class _Plain(io.RawIOBase):
    """The content of a file as it is stored."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._offset = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._offset

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._offset, io.SEEK_END: self._reader.size}
        self._offset = max(start[whence] + offset, 0)
        return self._offset

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        view = memoryview(buffer)
        count = max(min(len(view), self._reader.size - self._offset), 0)
        if count:
            self._reader.read_into(self._offset, view[:count])
        self._offset += count
        return count

    def close(self) -> None:
        if not self.closed:
            self._reader.close()
        super().close()


class _Inflated(io.RawIOBase):
    """The decompressed content of a file; the file may concatenate several compressed streams."""

    def __init__(self, raw: io.RawIOBase, compression: str, path: str) -> None:
        self._raw = raw
        self._bits = _WINDOW_BITS[compression]
        self._compression = compression
        self._path = path
        self._inflate = zlib.decompressobj(self._bits)
        self._input = b""
        self._is_started = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        view = memoryview(buffer)
        while True:
            if self._inflate.eof:
                self._input = self._inflate.unused_data
                self._inflate = zlib.decompressobj(self._bits)
                self._is_started = False
            if not self._input:
                self._input = self._raw.read(_PIECE) or b""
            if not self._input:
                if self._is_started:
                    raise errors.DataLossError(
                        f"{self._path} is truncated: its {self._compression} data is incomplete"
                    )
                return 0
            produced = self._decompress(len(view))
            if produced:
                view[: len(produced)] = produced
                return len(produced)

    def _decompress(self, limit: int) -> bytes:
        self._is_started = True
        try:
            produced = self._inflate.decompress(self._input, limit)
        except zlib.error as error:
            raise errors.DataLossError(
                f"{self._path} is not {self._compression} data: {error}"
            ) from error
        self._input = self._inflate.unconsumed_tail
        return produced

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


class StreamWriter:
    """A file opened for sequential writing, which appears under its path when it is closed.

    As a context manager, it closes the file, or deletes it after an error.

    Args:
        path: its path.
        compression: "", "ZLIB" or "GZIP".
        writer: the file if it is open already.

    Raises:
        InvalidArgumentError: the compression is unknown.
        PermissionDeniedError, FailedPreconditionError: the file cannot be written.
    """

    def __init__(self, path: str, compression: str = "", writer: Writer | None = None) -> None:
        check_compression(compression)
        self._writer = open_writer(path) if writer is None else writer
        self._deflate = zlib.compressobj(wbits=_WINDOW_BITS[compression]) if compression else None
        self._is_open = True

    def write(self, chunk: Chunk) -> None:
        """Append bytes."""
        self._writer.write(chunk if self._deflate is None else self._deflate.compress(chunk))

    def close(self) -> None:
        """Finish the file, or delete it if that fails; safe to call twice."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            if self._deflate is not None:
                self._writer.write(self._deflate.flush())
            self._writer.commit()
        except errors.OpError:
            self._writer.abandon()
            raise

    def abandon(self) -> None:
        """Delete the unfinished file; a finished one stays."""
        if self._is_open:
            self._is_open = False
            self._writer.abandon()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()
