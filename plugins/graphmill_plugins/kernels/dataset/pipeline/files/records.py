"""Datasets that read files: TFRecords, text lines and fixed-length records.

Semantics: tensorflow/core/kernels/data/{tf_record,text_line,fixed_length_record}_dataset_op.cc.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, ClassVar

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi.files import check_compression, read_exactly, read_line, read_record
from graphmill_plugins.kernels._strings import string_scalar
from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset, ElementIterator

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import BinaryIO

    from graphmill.spi.files import Broker
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Element, Elements, Scope

_RECORD_OVERHEAD = 16


class Records(Dataset):
    """The records of files, one after the other; each is a string.

    Args:
        paths: the files.
        compression: "", "ZLIB" or "GZIP".
        buffer_size: the number of bytes to read at a time; 0 for the default.
        broker: opens the files.
    """

    waits = True
    min_buffer_size: ClassVar[int] = 0

    def __init__(
        self, paths: Sequence[str], compression: str, buffer_size: int, broker: Broker
    ) -> None:
        check_compression(compression)
        if buffer_size < self.min_buffer_size:
            raise InvalidArgumentError(
                "`buffer_size` must be >= 0 (0 == default), got " + str(buffer_size)
            )
        super().__init__((dtypes.string,), ((),))
        self.paths, self.compression = list(paths), compression
        self.broker = broker
        self._buffer_size = buffer_size if buffer_size > 0 else 1 << 18

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        del scope
        return _Reading(self)

    def open(self, index: int) -> RecordReader:
        """Open a file."""
        stream = self.broker.open_stream(self.paths[index], self.compression, self._buffer_size)
        return self.reader_of(index, stream)

    def reader_of(self, index: int, stream: BinaryIO) -> RecordReader:
        """Return a reader of the records of an open file."""
        raise NotImplementedError


class RecordReader:
    """Reads the records of an open file."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream

    def next(self) -> bytes | None:
        """Return the next record, None at the end."""
        raise NotImplementedError


class _Reading(ElementIterator):
    def __init__(self, dataset: Records) -> None:
        self._dataset = dataset
        self._next_file = 0
        self._record_reader: RecordReader | None = None

    def __next__(self) -> Element:
        while True:
            if self._record_reader is None:
                if self._next_file == len(self._dataset.paths):
                    raise StopIteration
                self._next_file += 1  # a file that cannot be opened is skipped the next time
                self._record_reader = self._dataset.open(self._next_file - 1)
            try:
                record = self._record_reader.next()
            except BaseException:
                self._close()
                raise
            if record is not None:
                return (string_scalar(record),)
            self._close()

    def _close(self) -> None:
        if self._record_reader is not None:
            self._record_reader.stream.close()
            self._record_reader = None


class TFRecords(Records):
    """The records of TFRecord files, starting at an offset in each file."""

    min_buffer_size = -1  # what tf.data writes if the user gave no size

    def __init__(
        self,
        paths: Sequence[str],
        compression: str,
        buffer_size: int,
        broker: Broker,
        offsets: Iterable[int] = (),
    ) -> None:
        super().__init__(paths, compression, buffer_size, broker)
        self._offsets = list(offsets) or list(repeat(0, len(self.paths)))
        if len(self._offsets) != len(self.paths):
            raise InvalidArgumentError(
                f"byte_offsets must be empty or have one entry per file, got "
                f"{len(self._offsets)} for {len(self.paths)} files"
            )

    def reader_of(self, index: int, stream: BinaryIO) -> RecordReader:
        """Return a reader of the records of an open file."""
        offset = self._offsets[index]
        if offset:
            read_exactly(stream, offset)
        return TFRecordReader(stream, offset)


class TFRecordReader(RecordReader):
    """Reads the records of a TFRecord file."""

    def __init__(self, stream: BinaryIO, offset: int = 0) -> None:
        super().__init__(stream)
        self.offset = offset

    def next(self) -> bytes | None:
        """Return the next record, None at the end."""
        record = read_record(self.stream, self.offset)
        if record is not None:
            self.offset += len(record) + _RECORD_OVERHEAD
        return record


class Lines(Records):
    """The lines of text files, without line ends."""

    def reader_of(self, index: int, stream: BinaryIO) -> RecordReader:
        """Return a reader of the lines of an open file."""
        del index
        return LineReader(stream)


class LineReader(RecordReader):
    """Reads the lines of a text file."""

    def next(self) -> bytes | None:
        """Return the next line, None at the end."""
        line = read_line(self.stream)
        if not line:
            return None
        return line.removesuffix(b"\n").replace(b"\r", b"")


class FixedLength(Records):
    """Fixed-length records, between a header and a footer in each file."""

    def __init__(
        self,
        paths: Sequence[str],
        compression: str,
        buffer_size: int,
        broker: Broker,
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
        super().__init__(paths, compression, buffer_size, broker)
        self._header, self._record, self._footer = header, record, footer

    def reader_of(self, index: int, stream: BinaryIO) -> RecordReader:
        """Return a reader of the records of an open file."""
        if not self.compression:
            self._check_size(self.paths[index])
        if len(read_exactly(stream, self._header)) < self._header:
            raise InvalidArgumentError(
                f"{self.paths[index]} is shorter than its header of {self._header} bytes"
            )
        return FixedLengthReader(stream, self._record, self._footer)

    def _check_size(self, path: str) -> None:
        reader = self.broker.open_reader(path)
        body = reader.size - self._header - self._footer
        reader.close()
        if body % self._record or body < 0:
            raise InvalidArgumentError(
                f"Excluding the header ({self._header} bytes) and footer ({self._footer} bytes), "
                f'input file "{path}" has body length {body} bytes, which is not an exact '
                f"multiple of the record length ({self._record} bytes)."
            )


class FixedLengthReader(RecordReader):
    """Reads fixed-length records, without the footer at the end of the file.

    Args:
        hop: distance in bytes between the starts of records; 0 for the record length.
    """

    def __init__(self, stream: BinaryIO, record: int, footer: int, hop: int = 0) -> None:
        super().__init__(stream)
        self._record, self._footer = record, footer
        self._hop = hop or record
        self._buffer = b""

    def next(self) -> bytes | None:
        """Return the next record, None at the end."""
        needed = self._record + self._footer
        self._buffer += read_exactly(self.stream, needed - len(self._buffer))
        if len(self._buffer) < needed:
            return None
        record = self._buffer[: self._record]
        self._skip()
        return record

    def _skip(self) -> None:
        missing = self._hop - len(self._buffer)
        self._buffer = self._buffer[self._hop :]
        if missing > 0:
            read_exactly(self.stream, missing)
