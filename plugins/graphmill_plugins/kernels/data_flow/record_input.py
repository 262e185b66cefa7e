"""RecordInput: read records of TFRecord files in random order, epoch after epoch.

Semantics: tensorflow/core/kernels/record_input_op.cc, record_yielder.cc. TensorFlow reads in
several threads, so its order is not deterministic; here it depends on the seed alone.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from graphmill.errors import InvalidArgumentError, NotFoundError
from graphmill.spi import files, kernel
from graphmill.spi.files import check_compression, read_record
from graphmill.spi.process import fork_safe_lock
from graphmill_plugins.kernels._strings import string_array

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill.spi import OpKernelConstruction, OpKernelContext, Value
    from graphmill.spi.files import Broker

_READ_SIZE = 1 << 18


class _Yielder:
    """Yields records in random order, drawn from a buffer.

    Args:
        pattern: the pattern of the files' paths.
        compression: "", "ZLIB" or "GZIP".
        buffer_size: the number of records in the buffer.
        shift: the fraction of the file list by which its order is rotated in each epoch.
        broker: opens the files.
    """

    def __init__(
        self,
        pattern: str,
        compression: str,
        buffer_size: int,
        seed: int,
        shift: float,
        broker: Broker,
    ) -> None:
        check_compression(compression)
        self._pattern, self._compression = files.as_path(pattern), compression
        self._buffer_size, self._shift = max(buffer_size, 1), shift
        self._random = random.Random(seed)
        self._broker = broker

    def records(self) -> Iterator[bytes]:
        """Yield records forever.

        Raises:
            NotFoundError: no file matches, or no file has records.
        """
        while True:
            count = 0
            for record in self._epoch():
                count += 1
                yield record
            if not count:
                raise NotFoundError(f"Found no records in files at {self._pattern}")

    def _epoch(self) -> Iterator[bytes]:
        buffer: list[bytes] = []
        for record in self._file_records():
            buffer.append(record)
            if len(buffer) >= self._buffer_size:
                yield self._draw(buffer)
        while buffer:
            yield self._draw(buffer)

    def _draw(self, buffer: list[bytes]) -> bytes:
        index = self._random.randrange(len(buffer))
        buffer[index], buffer[-1] = buffer[-1], buffer[index]
        return buffer.pop()

    def _file_records(self) -> Iterator[bytes]:
        paths = sorted(self._broker.matching(self._pattern))
        if not paths:
            raise NotFoundError(f"Found no files at {self._pattern}")
        self._random.shuffle(paths)
        first = int(len(paths) * self._shift)
        for path in (*paths[first:], *paths[:first]):
            with self._broker.open_stream(path, self._compression, _READ_SIZE) as stream:
                offset = 0
                while (record := read_record(stream, offset)) is not None:
                    offset += len(record) + 16
                    yield record


@kernel(
    "RecordInput",
    stateful=True,
    host=True,
    expensive=True,
    effects=("fs.read", "rng"),
    brokered=True,
)
class RecordInputKernel:
    """Return a batch of records.

    Threads: `_lock` guards the iterator over the records; files are read under it.
    """

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._batch_size = construction.attr("batch_size")
        self._records = _Yielder(
            construction.attr("file_pattern"),
            construction.attr("compression_type"),
            construction.attr("file_buffer_size"),
            construction.attr("file_random_seed"),
            construction.attr("file_shuffle_shift_ratio"),
            construction.broker,
        ).records()
        if self._batch_size <= 0:
            raise InvalidArgumentError(f"batch_size must be positive, got {self._batch_size}")
        self._lock = fork_safe_lock()

    def __call__(self, ctx: OpKernelContext) -> Value:
        """Return the next records."""
        del ctx
        with self._lock:
            return string_array([next(self._records) for _ in range(self._batch_size)])
