"""A writer of files as a binary stream, for libraries that write to one."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphmill.files.base import Writer


class ByteStream(io.RawIOBase):
    """Append to a writer, which stays open when the stream is closed."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._position = 0

    def writable(self) -> bool:
        """Return true."""
        return True

    def write(self, data: Any, /) -> int:
        """Append bytes."""
        chunk = bytes(data)
        self._writer.write(chunk)
        self._position += len(chunk)
        return len(chunk)

    def tell(self) -> int:
        """Return the number of bytes that were written."""
        return self._position
