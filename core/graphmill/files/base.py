"""Base classes of file readers and writers."""

from __future__ import annotations

from typing import Final, Protocol, Self, TypeAlias

from graphmill import errors

Chunk: TypeAlias = "bytes | bytearray | memoryview"
DEFAULT_BUFFER: Final = 1 << 18
"""The size in bytes of the buffer of a stream, if none is requested."""


class Reader(Protocol):
    """A file opened for reading at any offset; thread-safe."""

    path: str
    size: int

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill `buffer` with the bytes at `offset`; DataLossError if the file is too short."""

    def close(self) -> None:
        """Release the file; safe to call twice."""


class Writer:
    """A file opened for writing; a `with` block commits it, or abandons it after an error."""

    def write(self, chunk: Chunk) -> None:
        """Append bytes."""
        raise NotImplementedError

    def flush(self) -> None:
        """Hand all bytes to the file system, which raises if the disk is full.

        After it, `commit` of a local file needs no more space. Other files may be written by
        `commit` only.
        """

    def commit(self) -> None:
        """Finish the file and move it to its path."""
        raise NotImplementedError

    def abandon(self) -> None:
        """Delete the unfinished file; never raises a file error."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            self.abandon()
            return
        try:
            self.commit()
        except errors.OpError:
            self.abandon()
            raise


class BytesReader:
    """Bytes in memory with the interface of a file."""

    def __init__(self, content: bytes | memoryview, path: str = "<bytes>") -> None:
        self.path = path
        self.view = memoryview(content)
        self.size = len(self.view)

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill `buffer` with the bytes at `offset`; DataLossError if the file is too short."""
        data = self.view[offset : offset + len(buffer)]
        if len(data) < len(buffer):
            raise errors.DataLossError(
                f"{self.path} is truncated: {len(buffer)} bytes are needed at byte {offset}, but "
                f"it has {self.size} bytes"
            )
        buffer[:] = data

    def close(self) -> None:
        """Do nothing."""
