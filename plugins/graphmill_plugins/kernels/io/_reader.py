"""`Reader`: takes work units (mostly file names) from a queue and returns their records.

Semantics: tensorflow/core/framework/reader_base.cc. Reads are served in order of arrival; a read
that waits for the queue blocks no thread.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from graphmill.errors import DataLossError, InvalidArgumentError, UnimplementedError
from graphmill.spi.files import as_path, read_exactly
from graphmill.spi.process import fork_safe_lock
from graphmill.spi.protos import LENGTH, VARINT, iterate_fields, length_delimited, write_varint
from graphmill_plugins.kernels._strings import decode
from graphmill_plugins.kernels.data_flow._queue import Dequeue
from graphmill_plugins.kernels.dataset.pipeline.files.lmdb_records import Database
from graphmill_plugins.kernels.dataset.pipeline.files.records import (
    FixedLengthReader,
    LineReader,
    TFRecordReader,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Cancellation
    from graphmill.spi.files import Broker
    from graphmill_plugins.kernels.data_flow._queue import Element, Queue
    from graphmill_plugins.kernels.dataset.pipeline.files.records import RecordReader

    Record = tuple[bytes, bytes]
    Done = Callable[[list[Record] | None, BaseException | None], None]

_UINT63 = (1 << 63) - 1


class Read:
    """A request for up to `count` records of one work unit."""

    __slots__ = ("cancellation", "count", "done", "queue")

    def __init__(self, queue: Queue, count: int, done: Done, cancellation: Cancellation) -> None:
        self.queue, self.count, self.done, self.cancellation = queue, count, done, cancellation


class Reader:
    """Reads records from the work units of a queue.

    Threads: `_lock` guards the pending requests; all else is used by the first of them only.

    Attributes:
        work: the current work unit; None between two work units.
        last_work: the work unit that was started last.
        started, finished: the number of work units that were started and finished.
        produced: the number of records returned.
    """

    can_save = False
    """Whether the state of such a reader can be saved."""
    has_one_record = False
    """Whether each work unit has only one record."""

    def __init__(self) -> None:
        self._lock = fork_safe_lock()
        self._reads: deque[Read] = deque()
        self.work: bytes | None = None
        self.last_work = b""
        self.started = self.finished = self.produced = 0

    def submit(self, read: Read) -> None:
        """Serve a request now, or after the pending ones."""
        with self._lock:
            self._reads.append(read)
            if len(self._reads) > 1:
                return
        self._serve(read)

    def _serve(self, read: Read) -> None:
        """Serve the first request until it has records or waits for a work unit."""
        try:
            records = self._records(read.count) if self.work is not None else []
        except BaseException as error:  # noqa: BLE001 - passed to the caller
            self._end(read, None, error)
            return
        if records:
            self.produced += len(records)
            self._end(read, records, None)
            return
        taker = Dequeue(1, lambda elements, error: self._got_work(read, elements, error))
        read.queue.submit(taker, read.cancellation)

    def _got_work(
        self, read: Read, elements: list[Element] | None, error: BaseException | None
    ) -> None:
        if error is not None or elements is None:
            self._end(read, None, error)
            return
        try:
            work: bytes = elements[0][0].item()
            self.start(work)
            self.work = self.last_work = work
            self.started += 1
        except BaseException as failure:  # noqa: BLE001 - passed to the caller
            self._end(read, None, failure)
            return
        self._serve(read)

    def _end(self, read: Read, records: list[Record] | None, error: BaseException | None) -> None:
        with self._lock:
            self._reads.popleft()
            following = self._reads[0] if self._reads else None
        read.done(records, error)
        if following is not None:
            self._serve(following)

    def _records(self, count: int) -> list[Record]:
        records: list[Record] = []
        while len(records) < count:
            record = self.next()
            if record is not None:
                records.append(record)
            if record is None or self.has_one_record:
                self.stop()
                self.work = None
                self.finished += 1
                break
        return records

    def start(self, work: bytes) -> None:
        """Start a work unit."""

    def next(self) -> Record | None:
        """Return the next key and record of the work unit, None at its end."""
        raise NotImplementedError

    def stop(self) -> None:
        """Release the resources of the work unit."""

    def reset(self) -> None:
        """Reset the reader: no work unit, all counts zero."""
        if self.work is not None:
            self.stop()
        self.work, self.last_work = None, b""
        self.started = self.finished = self.produced = 0

    def state(self) -> bytes:
        """Return the state as TensorFlow's message ReaderBaseState.

        Raises:
            UnimplementedError: this kind of reader cannot save its state.
        """
        self._check_can_save("SerializeState")
        numbers = (self.started, self.finished, self.produced)
        fields = [
            bytes([number << 3 | VARINT]) + write_varint(value)
            for number, value in enumerate(numbers, 1)
            if value
        ]
        if self.last_work:
            fields.append(length_delimited(4, len(self.last_work)) + self.last_work)
        return b"".join(fields)

    def restore(self, state: bytes) -> None:
        """Restore a state.

        Raises:
            UnimplementedError: this kind of reader cannot restore a state.
            InvalidArgumentError: the bytes are malformed, or the state is inconsistent.
        """
        self._check_can_save("RestoreState")
        numbers = {1: 0, 2: 0, 3: 0}
        work = b""
        try:
            for field in iterate_fields(state, 0, len(state)):
                if field.number in numbers and field.wire_type == VARINT:
                    numbers[field.number] = field.value
                elif field.number == 4 and field.wire_type == LENGTH:
                    work = state[field.start : field.end]
        except DataLossError as error:
            raise InvalidArgumentError(
                f"Could not parse the state of a reader: {error.message}"
            ) from error
        started, finished, produced = numbers.values()
        if max(numbers.values()) > _UINT63 or started - finished not in (0, 1):
            raise InvalidArgumentError(
                f"inconsistent state of a reader: {started} work units were started and {finished} "
                "finished"
            )
        self.reset()
        self.started, self.finished, self.produced = started, finished, produced
        self.last_work = work
        self.work = work if started > finished else None

    def _check_can_save(self, what: str) -> None:
        if not self.can_save:
            raise UnimplementedError(f"{type(self).__name__} does not support {what}")


class IdentityReader(Reader):
    """Returns each work unit as a record."""

    can_save = True
    has_one_record = True

    def next(self) -> Record | None:
        """Return the work unit as key and record."""
        return None if self.work is None else (self.work, self.work)


class WholeFileReader(IdentityReader):
    """Returns each file as one record.

    Args:
        broker: opens the files.
    """

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self._broker = broker

    def next(self) -> Record | None:
        """Return the path and the contents of the file."""
        return (
            None if self.work is None else (self.work, self._broker.read_bytes(as_path(self.work)))
        )


class FileRecordReader(Reader):
    """Returns the records of files.

    Args:
        open_file: opens a file.
        first_number: the number of the first record in keys; None for byte offsets as keys.
    """

    def __init__(
        self, open_file: Callable[[str], RecordReader], first_number: int | None = None
    ) -> None:
        super().__init__()
        self._open_file = open_file
        self._first_number = first_number
        self._records_of_file: RecordReader | None = None
        self._number = 0

    def start(self, work: bytes) -> None:
        """Open a file."""
        self._records_of_file = self._open_file(as_path(decode(work)))
        self._number = self._first_number or 0

    def next(self) -> Record | None:
        """Return the next key and record, None at the end."""
        reader = self._records_of_file
        if reader is None or self.work is None:
            return None
        number = reader.offset if isinstance(reader, TFRecordReader) else self._number
        record = reader.next()
        self._number += 1
        return None if record is None else (self.work + b":%d" % number, record)

    def stop(self) -> None:
        """Close the file."""
        if self._records_of_file is not None:
            self._records_of_file.stream.close()
            self._records_of_file = None


class LmdbReader(Reader):
    """Returns the keys and values of LMDB databases.

    Args:
        broker: opens the databases.
    """

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self._broker = broker
        self._database: Database | None = None

    def start(self, work: bytes) -> None:
        """Open a database."""
        self._database = Database(as_path(decode(work)), self._broker)

    def next(self) -> Record | None:
        """Return the next key and value, None at the end."""
        return None if self._database is None else self._database.next()

    def stop(self) -> None:
        """Close the database."""
        self._database = None


def open_records(path: str, broker: Broker, compression: str) -> RecordReader:
    """Open a TFRecord file."""
    return TFRecordReader(broker.open_stream(path, compression))


def open_lines(path: str, broker: Broker, skipped: int) -> RecordReader:
    """Open a text file, and skip its first lines."""
    reader = LineReader(broker.open_stream(path))
    for _ in range(skipped):
        if reader.next() is None:
            break
    return reader


def open_fixed_length(
    path: str, broker: Broker, encoding: str, header: int, record: int, footer: int, hop: int
) -> RecordReader:
    """Open a file of fixed-length records, and skip its header."""
    stream = broker.open_stream(path, encoding)
    read_exactly(stream, header)
    return FixedLengthReader(stream, record, footer, hop)
