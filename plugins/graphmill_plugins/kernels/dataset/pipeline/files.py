"""Datasets that read files: TFRecords, text lines and records of fixed length.

Semantics: tensorflow/core/kernels/data/{tf_record,text_line,fixed_length_record}_dataset_op.cc.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, ClassVar

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import files
from graphmill.spi.files import check_compression, open_stream, read_exactly, read_record
from graphmill_plugins.kernels._strings import string_scalar
from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset, ElementIterator

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import BinaryIO

    from graphmill_plugins.kernels.dataset.pipeline.dataset import Element, Elements, Scope

_RECORD_EXTRA = 16


class Records(Dataset):
    """The pieces of some files, one after the other; a string each.

    Args:
        paths: the files.
        compression: "", "ZLIB" or "GZIP".
        buffer_size: the number of bytes to read at a time; 0 for the default.
    """

    waits = True
    smallest_buffer: ClassVar[int] = 0

    def __init__(self, paths: Sequence[str], compression: str, buffer_size: int) -> None:
        check_compression(compression)
        if buffer_size < self.smallest_buffer:
            raise InvalidArgumentError(
                "`buffer_size` must be >= 0 (0 == default), got " + str(buffer_size)
            )
        super().__init__((dtypes.string,), ((),))
        self.paths, self.compression = list(paths), compression
        self._buffer_size = buffer_size if buffer_size > 0 else 1 << 18

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        del scope
        return _Reading(self)

    def open(self, index: int) -> FilePart:
        """Open a file."""
        stream = open_stream(self.paths[index], self.compression, self._buffer_size)
        return self.part(index, stream)

    def part(self, index: int, stream: BinaryIO) -> FilePart:
        """Return a reader of the pieces of an open file."""
        raise NotImplementedError


class FilePart:
    """Takes pieces out of one open file."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream

    def next(self) -> bytes | None:
        """Return the next piece, None at the end."""
        raise NotImplementedError


class _Reading(ElementIterator):
    def __init__(self, dataset: Records) -> None:
        self._dataset = dataset
        self._next_file = 0
        self._part: FilePart | None = None

    def __next__(self) -> Element:
        while True:
            if self._part is None:
                if self._next_file == len(self._dataset.paths):
                    raise StopIteration
                self._next_file += 1  # a file that cannot be opened is skipped the next time
                self._part = self._dataset.open(self._next_file - 1)
            try:
                piece = self._part.next()
            except BaseException:
                self._close()
                raise
            if piece is not None:
                return (string_scalar(piece),)
            self._close()

    def _close(self) -> None:
        if self._part is not None:
            self._part.stream.close()
            self._part = None


class TFRecords(Records):
    """The records of TFRecord files; with offsets from there on in each file."""

    smallest_buffer = -1  # the size that tf.data writes where the user gave none

    def __init__(
        self,
        paths: Sequence[str],
        compression: str,
        buffer_size: int,
        offsets: Iterable[int] = (),
    ) -> None:
        super().__init__(paths, compression, buffer_size)
        self._offsets = list(offsets) or list(repeat(0, len(self.paths)))
        if len(self._offsets) != len(self.paths):
            raise InvalidArgumentError(
                f"there are {len(self._offsets)} byte_offsets for {len(self.paths)} files; give "
                "one for each, or none"
            )

    def part(self, index: int, stream: BinaryIO) -> FilePart:
        """Return what takes the records out of an open file."""
        offset = self._offsets[index]
        if offset:
            read_exactly(stream, offset)
        return TFRecordPart(stream, offset)


class TFRecordPart(FilePart):
    """Takes TFRecords out of a file."""

    def __init__(self, stream: BinaryIO, offset: int = 0) -> None:
        super().__init__(stream)
        self.offset = offset

    def next(self) -> bytes | None:
        """Return the next record, None at the end."""
        record = read_record(self.stream, self.offset)
        if record is not None:
            self.offset += len(record) + _RECORD_EXTRA
        return record


class Lines(Records):
    """The lines of text files, without their ends."""

    def part(self, index: int, stream: BinaryIO) -> FilePart:
        """Return what takes the lines out of an open file."""
        del index
        return LinePart(stream)


class LinePart(FilePart):
    """Takes lines out of a file."""

    def next(self) -> bytes | None:
        """Return the next line, None at the end."""
        line = self.stream.readline()
        if not line:
            return None
        return line.removesuffix(b"\n").replace(b"\r", b"")


class FixedLength(Records):
    """Pieces of one length, between a header and a footer in each file."""

    def __init__(
        self,
        paths: Sequence[str],
        compression: str,
        buffer_size: int,
        *,
        header: int,
        record: int,
        footer: int,
    ) -> None:
        if header < 0:
            raise InvalidArgumentError("`header_bytes` must be >= 0")
        if record <= 0:
            raise InvalidArgumentError("`record_bytes` must be > 0")
        if footer < 0:
            raise InvalidArgumentError("`footer_bytes` must be >= 0")
        super().__init__(paths, compression, buffer_size)
        self._header, self._record, self._footer = header, record, footer

    def part(self, index: int, stream: BinaryIO) -> FilePart:
        """Return a reader of the pieces of an open file."""
        if not self.compression:
            self._check_size(self.paths[index])
        if len(read_exactly(stream, self._header)) < self._header:
            raise InvalidArgumentError(
                f"{self.paths[index]} is shorter than its header of {self._header} bytes"
            )
        return FixedLengthPart(stream, self._record, self._footer)

    def _check_size(self, path: str) -> None:
        reader = files.open_reader(path)
        body = reader.size - self._header - self._footer
        reader.close()
        if body % self._record or body < 0:
            raise InvalidArgumentError(
                f"Excluding the header ({self._header} bytes) and footer ({self._footer} bytes), "
                f'input file "{path}" has body length {body} bytes, which is not an exact '
                f"multiple of the record length ({self._record} bytes)."
            )


class FixedLengthPart(FilePart):
    """Takes pieces of one length out of a file, and leaves the footer alone."""

    def __init__(self, stream: BinaryIO, record: int, footer: int, hop: int = 0) -> None:
        super().__init__(stream)
        self._record, self._footer = record, footer
        self._hop = hop or record
        self._ahead = b""

    def next(self) -> bytes | None:
        """Return the next piece, None at the end."""
        wanted = self._record + self._footer
        self._ahead += read_exactly(self.stream, wanted - len(self._ahead))
        if len(self._ahead) < wanted:
            return None
        piece = self._ahead[: self._record]
        self._skip()
        return piece

    def _skip(self) -> None:
        missing = self._hop - len(self._ahead)
        self._ahead = self._ahead[self._hop :]
        if missing > 0:
            read_exactly(self.stream, missing)
