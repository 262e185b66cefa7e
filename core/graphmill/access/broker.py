"""`Broker`: opens files for kernels, and permits their other effects.

A kernel that opens files declares `brokered=True`, and takes the broker of its node as keyword
argument `broker` (a class: as `construction.broker`). In a session without rules it is
`UNRESTRICTED`, whose methods are the functions of `graphmill.files`; in one with rules it is a
`graphmill.access.restricted_broker.RestrictedBroker`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Final

from graphmill import files
from graphmill.files.base import DEFAULT_BUFFER

if TYPE_CHECKING:
    from graphmill.files.append import Appender
    from graphmill.files.base import Chunk, Reader, Writer
    from graphmill.files.stream import StreamWriter

GUARDED: Final = frozenset({"fs.read", "fs.write", "net", "process", "python"})
"""The effects of ops and kernels that rules restrict; all others are harmless."""


class Broker:
    """Opens any file, and allows every effect.

    The methods raise the errors of the functions of `graphmill.files`; those of a broker with rules
    also PermissionDeniedError, which names node, op, effect, path and the rule that would allow it.

    Attributes:
        is_restricted: whether there are rules. A kernel that cannot open a file through the broker,
            because a library opens it by its path, has to do without that library then.
    """

    __slots__ = ()

    is_restricted = False

    def require(self, effect: str, path: str = "") -> None:
        """Check that the node may have an effect; for an effect on files, on this path."""

    def open_reader(self, path: str) -> Reader:
        """Open a file for reading at any offset."""
        return files.open_reader(path)

    def read_bytes(self, path: str) -> bytes:
        """Return the whole content of a file."""
        return files.read_content(self.open_reader(path))

    def open_stream(
        self, path: str, compression: str = "", buffer_size: int = DEFAULT_BUFFER
    ) -> BinaryIO:
        """Open a file for sequential reading; see `graphmill.files.stream.open_stream`."""
        from graphmill.files.stream import check_compression, stream_of

        check_compression(compression)
        return stream_of(self.open_reader(path), compression, buffer_size)

    def open_writer(self, path: str) -> Writer:
        """Open a file for atomic writing, creating missing folders."""
        return files.open_writer(path)

    def open_stream_writer(self, path: str, compression: str = "") -> StreamWriter:
        """Open a file for sequential writing, creating missing folders."""
        from graphmill.files.stream import StreamWriter, check_compression

        check_compression(compression)
        return StreamWriter(path, compression, self.open_writer(path))

    def open_appender(self, path: str) -> Appender:
        """Open a file that others read while it grows, creating missing folders."""
        from graphmill.files.append import Appender

        return Appender(path)

    def write(self, path: str, *chunks: Chunk) -> None:
        """Write a file atomically."""
        with self.open_writer(path) as writer:
            for chunk in chunks:
                writer.write(chunk)

    def write_new(self, path: str, content: bytes) -> str:
        """Write a file that does not exist yet; return its path, possibly with a suffix."""
        return files.write_new(path, content)

    def exists(self, path: str) -> bool:
        """Return whether a file or folder exists."""
        return files.exists(path)

    def is_dir(self, path: str) -> bool:
        """Return whether a path is a folder."""
        return files.is_dir(path)

    def list_dir(self, path: str) -> list[str]:
        """Return the names in a folder, sorted."""
        return files.list_dir(path)

    def matching(self, pattern: str) -> list[str]:
        """Return the sorted paths that match a pattern; see `graphmill.files.matching`."""
        return files.matching(pattern)

    def make_dirs(self, path: str) -> None:
        """Create a folder and missing parents."""
        files.make_dirs(path)

    def rename(self, source: str, target: str) -> None:
        """Move a file; one at the target is replaced."""
        files.rename(source, target)

    def remove(self, path: str) -> None:
        """Delete a file."""
        files.remove(path)

    def remove_empty_dir(self, path: str) -> None:
        """Delete an empty folder."""
        files.remove_empty_dir(path)


UNRESTRICTED: Final = Broker()
"""The broker of sessions without rules, and of code that is not a kernel."""
